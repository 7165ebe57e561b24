import { useSyncExternalStore } from 'react';
import { Listeners } from './model/listeners.ts';

/** `auto` follows the system. */
export const themes = ['auto', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

const storageKey = 'muster.theme';
const listeners = new Listeners();

const stored = (): Theme => themes.find((theme) => theme === localStorage.getItem(storageKey)) ?? 'auto';

export function applyTheme(): void {
  document.documentElement.dataset.theme = stored();
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(storageKey, theme);
  applyTheme();
  listeners.notify();
}

const useTheme = (): Theme => useSyncExternalStore(listeners.subscribe, stored);

export function ThemeChoice() {
  const chosen = useTheme();
  return (
    <fieldset className="theme-choice">
      <legend>Theme</legend>
      {themes.map((theme) => (
        <label key={theme}>
          <input type="radio" name="theme" checked={theme === chosen} onChange={() => chooseTheme(theme)} />
          {theme}
        </label>
      ))}
    </fieldset>
  );
}
