import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EventParser } from './event-parser.ts';

const parse = (...pieces: string[]) => {
  const parser = new EventParser();
  return pieces.flatMap((piece) => parser.push(piece));
};

test('an event has an id, a type and data; comments are ignored', () => {
  expect(parse(': open\n\nid: 7\nevent: MESSAGE\ndata: {"a":1}\n\n: alive\n\ndata:x\ndata: y\n\n')).toEqual([
    { id: '7', type: 'MESSAGE', data: '{"a":1}' },
    { id: '7', type: 'message', data: 'x\ny' },
  ]);
});

test('an incomplete event is not returned', () => {
  expect(parse('data: cut off')).toEqual([]);
  expect(parse('id: 1\ndata: cut off\n')).toEqual([]);
});

test('chunk boundaries and line endings make no difference', () => {
  const text = 'id: 1\nevent: A\ndata: eins\n\n: alive\n\nid: 2\ndata: zwei\ndata: drei\n\ndata\n\n\n';
  const whole = parse(text);
  expect(whole.map(({ data }) => data)).toEqual(['eins', 'zwei\ndrei', '']);
  fc.assert(
    fc.property(
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.array(fc.nat(text.length * 2), { maxLength: 12 }),
      (end, cuts) => {
        const written = `${text.replaceAll('\n', end)}: end${end}`;
        const at = [0, ...cuts.map((c) => Math.min(c, written.length)).sort((a, b) => a - b), written.length];
        expect(parse(...at.slice(1).map((to, i) => written.slice(at[i], to)))).toEqual(whole);
      },
    ),
  );
});
