/**
 * What hosts draw from a source that no reader sees: diagrams, maps, formulas. Their languages have comments, hidden parts
 * and invisible text, each in its own way, so the source is not shown to agents, and a note takes its place. A formula
 * without commands or comments hides nothing and stays, and so do amounts such as $5.
 */
type Range = readonly [from: number, to: number];

const languages = new Set(
  `mermaid math geojson topojson stl plantuml puml c4plantuml json:table dot actdiag blockdiag bpmn bytefield d2 dbml
   diagramsnet ditaa erd excalidraw graphviz nomnoml nwdiag packetdiag pikchr rackdiag seqdiag structurizr svgbob
   symbolator tikz umlet vega vega-lite vegalite wavedrom wireviz`.split(/\s+/),
);

const opening = /^([ \t>*+\-\d.)]*)(`{3,}|~{3,})[ \t]*\{?[.:]?([\w:-]*)/;
const closing = /^([ \t>]*)(`{3,}|~{3,})[ \t]*$/;

/** The language of a block that hosts draw, if it begins in this line; null if it is code, or something else. */
export function drawnLanguage(line: string): string | null {
  const language = opening.exec(line)?.[3]?.toLowerCase() ?? '';
  return languages.has(language) ? language : null;
}

/** Where a drawing ends that begins with this line, at `at`, in a quote, a list or where HTML may be: at the latest. */
export function endOfDrawing(text: string, at: number, line: string): number {
  const [, prefix = '', marks = ''] = opening.exec(line) ?? [];
  // A line of marks that is not further inside ends the block, or what it is in.
  const inside = prefix.replace(/[^ \t>]/g, ' ');
  for (let from = at + line.length + 1; from < text.length; ) {
    const found = text.indexOf('\n', from);
    const end = found === -1 ? text.length : found;
    const [, before = '', ends = ''] = closing.exec(text.slice(from, end)) ?? [];
    if (ends.startsWith(marks) && inside.startsWith(before)) return Math.min(end + 1, text.length);
    from = end + 1;
  }
  return text.length;
}

const hidesText = /[\\%]/;

/**
 * The formulas of a paragraph that may hide text. Renderers differ in which marks belong together, so everything between
 * two marks that follow each other counts, whether a mark is escaped or not.
 */
export function formulasIn(text: string, start: number, end: number, code: readonly Range[]): Range[] {
  // Not the whole text: it would be searched again for each of its paragraphs.
  const paragraph = text.slice(start, end);
  if (!hidesText.test(paragraph)) return [];
  const positions = (mark: RegExp) => [...paragraph.matchAll(mark)].map(({ index }) => start + index);
  let next = 0;
  const marks = positions(/\$/g).filter((at) => {
    while ((code[next]?.[1] ?? end) <= at) next += 1;
    return (code[next]?.[0] ?? end) > at;
  });
  const isDouble = (at: number) => text[at] === '$' && text[at + 1] === '$';
  const single = (list: readonly number[]) =>
    between(list, 1).filter(([from, to]) => {
      const isDisplay = isDouble(from - 2) && isDouble(to);
      return isDisplay || (/\S/.test(text[from] ?? '') && /\S/.test(text[to - 1] ?? ''));
    });
  const found = [
    ...single(marks),
    ...single(marks.filter((at) => text[at - 1] !== '\\')),
    ...between(marks.filter(isDouble), 2),
    ...between(positions(/\\[()[\]]/g), 2),
  ];
  return found.filter(([from, to]) => from < to && hidesText.test(text.slice(from, to)));
}

/** What is between each of these marks and the next one. */
const between = (marks: readonly number[], length: number): Range[] =>
  marks.slice(1).map((at, i) => [(marks[i] ?? 0) + length, at]);

const mostTargetLength = 200;
const address = /^[^\s?#]*/;
const scheme = /^[a-z][a-z\d+.-]{0,30}:/i;
const webScheme = /^(?:https?|mailto):/i;
const anchor = /^#[\w-]{0,20}\d[\w-]{0,20}$/;

/**
 * How much of the target of a link stays: its address without query and fragment, but with the number of a line or a
 * comment. A reader sees none of it, and it has room for words.
 */
export function shownTargetLength(destination: string): number {
  if (scheme.test(destination) && !webScheme.test(destination)) return 0;
  const shown = address.exec(destination)?.[0].length ?? 0;
  const fragment = destination.slice(shown);
  const length = anchor.test(fragment) ? destination.length : shown;
  return length <= mostTargetLength ? length : 0;
}
