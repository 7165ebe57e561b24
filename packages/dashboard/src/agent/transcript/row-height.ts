import type { Row } from './rows.ts';

const linePx = 21;
const lineLength = 90;

/**
 * How high a row will be, before it was seen: the nearer, the less the scroll bar jumps. A row that is as high as
 * thought is drawn once.
 */
export function estimatedHeight(row: Row): number {
  switch (row.kind) {
    case 'tool':
    case 'setup':
      return 33;
    case 'quiet':
      return 28;
    case 'run-start':
    case 'run-end':
      return 40;
    case 'person':
      return 62 + textHeight(row.text ?? '');
    case 'question':
    case 'error':
      return 62 + textHeight(row.entry.text);
    case 'message':
      return 25 + textHeight(row.entry.text);
    case 'child':
      return 35;
    default:
      return 36;
  }
}

function textHeight(text: string): number {
  let lines = 0;
  for (const line of text.split('\n', 400)) lines += Math.max(0.6, Math.ceil(line.length / lineLength));
  return lines * linePx;
}
