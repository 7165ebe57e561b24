const isApple = /Mac|iPhone|iPad/.test(navigator.platform);

export const paletteKey = isApple ? '⌘K' : 'Ctrl+K';
export const sendKeys = isApple ? '⌘Enter' : 'Ctrl+Enter';

/** On a Mac, Ctrl+K deletes to the end of the line. */
export const isPaletteKey = ({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): boolean =>
  key.toLowerCase() === 'k' && (isApple ? metaKey && !ctrlKey : ctrlKey && !metaKey) && !altKey && !shiftKey;
