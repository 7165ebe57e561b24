/** A piece of a line and what it is; the page colours it by that. */
export interface Paint {
  readonly as: 'plain' | 'key' | 'comment' | 'mark' | 'heading';
  readonly text: string;
}

const keyLine = /^((?: |- )*)([^\s#'"[{&*!|>%@`-][^#]*?|"[^"]*"|'[^']*')(:)(?=\s|$)(.*)$/s;
const commentTail = /^(.*?)(\s#.*)$/s;

/** Colours for YAML as people write it. It looks at one line, so a text over several lines may fool it. */
export function paintYaml(line: string): readonly Paint[] {
  if (/^\s*#/.test(line)) return [{ as: 'comment', text: line }];
  if (/^(---|\.\.\.)\s*$/.test(line)) return [{ as: 'mark', text: line }];
  const [, lead = '', key = '', colon = '', rest = line] = keyLine.exec(line) ?? [];
  const [, value = rest, comment = ''] = commentTail.exec(rest) ?? [];
  return [
    { as: 'mark', text: lead },
    { as: 'key', text: key },
    { as: 'mark', text: colon },
    { as: 'plain', text: value },
    { as: 'comment', text: comment },
  ].filter(({ text }) => text !== '') as Paint[];
}

export const paintProse = (line: string): readonly Paint[] => [
  { as: /^#{1,6} /.test(line) ? 'heading' : 'plain', text: line },
];
