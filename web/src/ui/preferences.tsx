// What the reader chooses on every page: colours and language.
import { language, languages, setLanguage, t, type Key } from "../i18n";
import { theme, type Theme } from "../store/prefs";
import { IconButton, Select } from "./parts";

const themes: [Theme, Key][] = [["auto", "themeAuto"], ["light", "themeLight"], ["dark", "themeDark"]];

export function ThemeButton() {
    const next = themes[(themes.findIndex(([x]) => x === theme.value) + 1) % themes.length]!;
    return <IconButton icon={theme.value} label={`${t("theme")}: ${t(themes.find(([x]) => x === theme.value)![1])}`} onClick={() => { theme.value = next[0]; }} />;
}

export function LanguageSelect() {
    return <Select label={t("language")} hideLabel value={language.value} options={languages} onChange={setLanguage} class="language" />;
}
