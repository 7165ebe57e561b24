import type { Range } from '@tanstack/react-virtual';
import { defaultRangeExtractor } from '@tanstack/react-virtual';

const mostSelected = 400;

/**
 * Which rows are in the page: those on the screen, and besides them whatever the reader holds on to. A row that went
 * while it was selected or focused would take the selection or the focus with it.
 */
export function keptRows(range: Range, scroller: HTMLElement | null): number[] {
  const shown = defaultRangeExtractor(range);
  const held = scroller ? heldRows(scroller).filter((place) => place < range.count) : [];
  if (held.length === 0) return shown;
  return [...new Set([...shown, ...held])].sort((a, b) => a - b);
}

function heldRows(scroller: HTMLElement): number[] {
  const focused = placeOf(document.activeElement, scroller);
  const selection = getSelection();
  const isSelected = selection !== null && !selection.isCollapsed;
  const ends = isSelected ? [selection.anchorNode, selection.focusNode] : [];
  const places = ends.map((node) => placeOf(node, scroller)).filter((place) => place !== undefined);
  const first = Math.min(...places);
  const count = places.length === 0 ? 0 : Math.min(Math.max(...places) - first + 1, mostSelected);
  const selected = Array.from({ length: count }, (_, at) => first + at);
  return focused === undefined ? selected : [focused, ...selected];
}

function placeOf(node: Node | null, scroller: HTMLElement): number | undefined {
  const element = node instanceof Element ? node : node?.parentElement;
  const row = element?.closest('[data-index]');
  if (!row || !scroller.contains(row)) return undefined;
  return Number(row.getAttribute('data-index'));
}
