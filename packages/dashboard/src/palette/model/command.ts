import type { Searchable } from './fuzzy.ts';

/** What the palette offers. */
export interface Command {
  /** Unique. */
  readonly id: string;
  readonly title: string;
  /** What it is, beside the title. */
  readonly hint: string;
  /** What a query is compared with. */
  readonly text: Searchable;
  /** The shortcut that does the same. */
  readonly keys?: string;
  readonly act: Act;
}

export type Act =
  | { readonly kind: 'go'; readonly href: string }
  | { readonly kind: 'run'; readonly run: () => unknown }
  /** Asks first, in the dialog for several agents. */
  | { readonly kind: 'bulk'; readonly action: 'message' | 'stop' | 'label' | 'kill' };
