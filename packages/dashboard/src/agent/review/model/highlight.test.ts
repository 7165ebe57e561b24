import { describe, expect, it } from 'vitest';
import { coloursOf, languageOf } from './highlight.ts';

describe('the colours of a line', () => {
  it('are the lengths and classes of its parts, also of scopes within scopes and over several lines', () => {
    const html =
      '<span class="hljs-keyword">if</span> (a &lt; <span class="hljs-string">&quot;x<span class="hljs-subst">1</span></span>)\n' +
      '<span class="hljs-comment">/* one\ntwo */</span> x';
    expect(coloursOf(html)).toEqual([
      [2, 2, 6, 0, 2, 3, 2, 0],
      [6, 1],
      [6, 1, 2, 0],
    ]);
  });

  it('know a class by the first word of its scope', () => {
    expect(coloursOf('<span class="hljs-title function_">f</span>')).toEqual([[1, 5]]);
    expect(coloursOf('<span class="hljs-built_in">f</span>')).toEqual([[1, 6]]);
    expect(coloursOf('<span class="hljs-unknown">f</span>')).toEqual([[1, 0]]);
  });
});

it('a language is known by the name of the file', () => {
  expect(
    ['src/a.ts', 'a.b.py', 'Dockerfile', 'x/Makefile', 'README', 'a.xyz', '.ts'].map(languageOf),
  ).toEqual(['typescript', 'python', 'dockerfile', 'makefile', '', '', 'typescript']);
});
