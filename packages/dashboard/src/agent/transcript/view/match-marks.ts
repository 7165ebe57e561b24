/** The places of a text in an element, in upper or lower case, also across the elements in it. */
export function matchesIn(element: Element, text: string, most = 200): Range[] {
  if (text.trim() === '') return [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes: Text[] = [];
  while (walker.nextNode()) nodes.push(walker.currentNode as Text);
  const whole = nodes.map(({ data }) => data).join('');
  const ranges: Range[] = [];
  let at = 0;
  let before = 0;
  /** The node that has this character, and where in it. The calls are in ascending order. */
  const placeOf = (index: number): [Text, number] => {
    while (nodes[at + 1] && index >= before + (nodes[at]?.length ?? 0)) before += nodes[at++]?.length ?? 0;
    return [nodes[at] as Text, index - before];
  };
  for (const match of whole.matchAll(patternOf(text))) {
    if (ranges.length >= most) break;
    const range = document.createRange();
    range.setStart(...placeOf(match.index));
    const [last, offset] = placeOf(match.index + match[0].length - 1);
    range.setEnd(last, offset + 1);
    ranges.push(range);
  }
  return ranges;
}

const patternOf = (text: string): RegExp => new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'giu');

const name = 'transcript-match';
const currentName = 'transcript-current-match';

/**
 * Marks a text in the rows on the screen, until the returned function is called. The document stays as React made it. A
 * browser without highlights still marks the row of the current match.
 */
export function markMatches(scroller: HTMLElement, text: string): () => void {
  if (!('highlights' in CSS)) return () => {};
  let frame = 0;
  const mark = () => {
    frame = 0;
    const rows = [...scroller.querySelectorAll('.row')];
    const rangesOf = (isCurrent: boolean) =>
      rows
        .filter((row) => (row.getAttribute('data-target') === 'true') === isCurrent)
        .flatMap((row) => [...row.querySelectorAll('.row-content')])
        .flatMap((content) => matchesIn(content, text));
    CSS.highlights.set(name, new Highlight(...rangesOf(false)));
    CSS.highlights.set(currentName, new Highlight(...rangesOf(true)));
  };
  const markSoon = () => {
    frame ||= requestAnimationFrame(mark);
  };
  const observer = new MutationObserver(markSoon);
  observer.observe(scroller, {
    childList: true,
    characterData: true,
    subtree: true,
    attributes: true,
    attributeFilter: ['data-target'],
  });
  markSoon();
  return () => {
    observer.disconnect();
    cancelAnimationFrame(frame);
    CSS.highlights.delete(name);
    CSS.highlights.delete(currentName);
  };
}
