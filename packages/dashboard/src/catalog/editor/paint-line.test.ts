import { expect, test } from 'vitest';
import { paintProse, paintYaml } from './paint-line.ts';

const painted = (line: string) => paintYaml(line).map(({ as, text }) => `${as}:${text}`);

test.each([
  ['model: opus # why', ['key:model', 'mark::', 'plain: opus', 'comment: # why']],
  ['  - url: https://x.org/a#b', ['mark:  - ', 'key:url', 'mark::', 'plain: https://x.org/a#b']],
  ['repos:', ['key:repos', 'mark::']],
  ['# a note', ['comment:# a note']],
  ['---', ['mark:---']],
  ['  - npm ci', ['plain:  - npm ci']],
  ['"a b": 1', ['key:"a b"', 'mark::', 'plain: 1']],
  ['', []],
])('%j is told apart', (line, parts) => expect(painted(line)).toEqual(parts));

test('no letter is lost or added', () => {
  for (const line of ['a: b', '  - x: y # z', 'http://x:80', 'a:b', ': x', '- - a: 1', '\'q\': "#" #c'])
    expect(
      paintYaml(line)
        .map(({ text }) => text)
        .join(''),
    ).toBe(line);
  expect(paintProse('# Title')).toEqual([{ as: 'heading', text: '# Title' }]);
});
