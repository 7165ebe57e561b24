/** An address of the list under a name. */
export interface SavedView {
  readonly name: string;
  readonly url: string;
}

export interface SavedViewsControl {
  readonly views: readonly SavedView[];
  readonly save: (views: readonly SavedView[]) => void;
}

export const maxViews = 20;
export const maxNameLength = 40;

const isView = (value: unknown): value is SavedView => {
  const { name, url } = (value ?? {}) as Partial<Record<keyof SavedView, unknown>>;
  return typeof name === 'string' && name !== '' && typeof url === 'string' && /^\/(\?|$)/.test(url);
};

/** The valid views that the browser has stored. */
export function viewsIn(stored: string | null): readonly SavedView[] {
  try {
    const parsed: unknown = JSON.parse(stored ?? '[]');
    return Array.isArray(parsed)
      ? parsed
          .filter(isView)
          .map(({ name, url }) => ({ name: name.slice(0, maxNameLength), url }))
          .slice(0, maxViews)
      : [];
  } catch {
    return [];
  }
}

/** A view with the same name is replaced. */
export const withView = (views: readonly SavedView[], view: SavedView): readonly SavedView[] =>
  views.some(({ name }) => name === view.name)
    ? views.map((one) => (one.name === view.name ? view : one))
    : [...views, view];

export const withoutView = (views: readonly SavedView[], name: string): readonly SavedView[] =>
  views.filter((one) => one.name !== name);
