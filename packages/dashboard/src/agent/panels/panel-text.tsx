import type { ReactNode } from 'react';

/** A text that may be long: it scrolls inside itself. */
export const PanelText = ({ label, children }: { readonly label: string; readonly children: ReactNode }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached from the keyboard.
  <section className="panel-text" tabIndex={0} aria-label={label}>
    {children}
  </section>
);
