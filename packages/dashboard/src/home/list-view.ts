/** What of the list can be seen, in heights from its top. Bars that stay at the top of the window hide what is under them. */
export function listView(list: HTMLElement): { readonly top: number; readonly bottom: number } {
  const { top } = list.getBoundingClientRect();
  // The margin that a row keeps when it is scrolled into view is as high as those bars.
  const barsHeight = Number.parseFloat(getComputedStyle(list).scrollMarginTop) || 0;
  return { top: barsHeight - top, bottom: window.innerHeight - top };
}
