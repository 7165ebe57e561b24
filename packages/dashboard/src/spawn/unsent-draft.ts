import type { SpawnDraft } from './spawn-draft.ts';

/**
 * A text that was typed and not sent, of whoever typed it: Escape closes the dialog, and is pressed by mistake too. It is
 * gone with the page.
 */
let unsent: { readonly keyId: string; readonly draft: SpawnDraft } | null = null;

export const keepUnsent = (keyId: string, draft: SpawnDraft | null): void => {
  unsent = draft && { keyId, draft };
};

export const unsentDraft = (keyId: string): SpawnDraft | null =>
  unsent?.keyId === keyId ? unsent.draft : null;
