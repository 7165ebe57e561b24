import { describe, expect, it } from 'vitest';
import { parseDirectives } from './directives.ts';

const one = (line: string) => parseDirectives(line)[0];

describe('parseDirectives', () => {
  it('reads only lines that begin with !, in order, whatever the line ends', () => {
    const text = 'Please do:\r\n!say one\r\nprose ! with a mark\n !say indented\n!say two  words ';
    expect(parseDirectives(text)).toEqual([
      { type: 'say', text: 'one' },
      { type: 'say', text: 'two  words' },
    ]);
  });

  it.each([
    ['!sleep 1.5', { type: 'sleep', ms: 1500 }],
    ['!run echo "a b" | wc -c', { type: 'run', text: 'echo "a b" | wc -c' }],
    ['!write a/b.txt some text', { type: 'write', path: 'a/b.txt', text: 'some text' }],
    ['!write empty', { type: 'write', path: 'empty', text: '' }],
    ['!push', { type: 'push', text: '' }],
    ['!push First step', { type: 'push', text: 'First step' }],
    ['!task add Write the docs', { type: 'add-task', text: 'Write the docs' }],
    ['!task done t-1', { type: 'complete-task', text: 't-1' }],
    ['!ask Which one?', { type: 'ask', text: 'Which one?' }],
    ['!finish', { type: 'finish', text: '' }],
    ['!finish All done', { type: 'finish', text: 'All done' }],
    ['!output {"a":[1,null]}', { type: 'output', value: { a: [1, null] } }],
    ['!limit 3', { type: 'limit', ms: 3000 }],
    ['!fail no way', { type: 'fail', text: 'no way' }],
  ])('reads %s', (line, directive) => {
    expect(one(line)).toEqual(directive);
  });

  it('reads usage as three whole numbers and dollars', () => {
    const usage = { inputTokens: 100, cachedInputTokens: 20, outputTokens: 3, costUsd: 0.25 };
    expect(one('!usage 100 20 3 0.25')).toEqual({ type: 'usage', usage });
    expect(one('!usage 100 20 3')).toMatchObject({ type: 'invalid' });
    expect(one('!usage 1.5 20 3 1')).toMatchObject({ type: 'invalid' });
    expect(one('!usage 1 -2 3 1')).toMatchObject({ type: 'invalid' });
  });

  it('removes one level of escaping per spawn', () => {
    const line = String.raw`!spawn kid !say a\n!spawn grandkid !say b\\n!say c\\\\d`;
    const kid = one(line);
    expect(kid).toEqual({
      type: 'spawn',
      name: 'kid',
      description: `!say a\n${String.raw`!spawn grandkid !say b\n!say c\\d`}`,
    });
    const grandkid = parseDirectives(kid?.type === 'spawn' ? kid.description : '')[1];
    expect(grandkid).toMatchObject({ name: 'grandkid', description: '!say b\n!say c\\d' });
  });

  it.each(['!dance now', '!constructor', '!', '!!!'])('takes %s for prose and names it', (line) => {
    const [name] = line.split(' ');
    expect(one(line)).toEqual({ type: 'unknown', text: expect.stringContaining(`directive ${name} (`) });
  });

  it.each(['!say', '!run', '!write', '!task', '!task add', '!task drop x', '!ask', '!spawn', '!spawn kid'])(
    'refuses %s, which lacks something',
    (line) => {
      expect(one(line)).toMatchObject({
        type: 'invalid',
        text: expect.stringContaining(line.split(' ')[0] ?? ''),
      });
    },
  );

  it.each(['!sleep', '!sleep soon', '!sleep -1', '!sleep 1e9', '!limit NaN', '!output', '!output {a}'])(
    'refuses %s',
    (line) => {
      expect(one(line)).toMatchObject({ type: 'invalid' });
    },
  );
});
