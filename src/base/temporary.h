/* temporary.h - unfinished files and folders, in the folder of what they will become. Each is locked (flock) by the process that writes
 * it, which the kernel undoes when that process ends, however it does: so what a killed writer left is known by its name and its
 * free lock, and the next writer in that folder removes it. Thread-safe. */
#ifndef LM_BASE_TEMPORARY_H
#define LM_BASE_TEMPORARY_H

/* A new file, or folder, in the folder of `path`, under `name` (PATH_MAX bytes). Its descriptor holds the lock: close it when the file has
 * got its own name or is gone. -1 and errno when it cannot be made. What dead writers left beside it is removed first. */
int lm_temporary_file(const char *path, char *name);
int lm_temporary_folder(const char *path, char *name);

/* A folder with the files in it; folders in it stay, and then it does. */
void lm_remove_folder(const char *path);

#endif
