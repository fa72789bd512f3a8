/* temporary.h - unfinished files and folders, in the folder of what they will become. Each is locked (flock)
 * by the process that writes it; the kernel releases the lock when that process ends in any way. What a
 * killed writer left is therefore recognised by its name and its free lock, and the next writer in that
 * folder removes it. Thread-safe. */
#ifndef LM_BASE_TEMPORARY_H
#define LM_BASE_TEMPORARY_H

/* Create a file or a folder in the folder of `path`, with its path in `name` (PATH_MAX bytes). The descriptor
 * returned holds the lock: close it when the file has its final name or is gone. -1 and errno: it cannot be
 * created. What dead writers left there is removed first. */
int lm_temporary_file(const char *path, char *name);
int lm_temporary_folder(const char *path, char *name);

/* Remove a folder with the files in it. If it contains folders, they and the folder stay. */
void lm_remove_folder(const char *path);

#endif
