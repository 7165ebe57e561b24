import fc from 'fast-check';
import { marked } from 'marked';
import { describe, expect, it, test } from 'vitest';
import { withoutHiddenMarkup } from './hidden-markup.ts';
import { endOfHtmlTag } from './html-tags.ts';
import { cutMarkdown, oneLine, quoteLog, quoteMarkdown, visibleText } from './quote.ts';
import { quoted } from './quoted.ts';

describe('what is removed from the text of others', () => {
  const hidden: readonly (readonly [what: string, text: string, visible: string])[] = [
    ['a comment', 'a <!-- secret --> b', 'a  b'],
    ['a comment over several paragraphs', 'a\n<!-- one\n\ntwo -->\nb', 'a\n\nb'],
    ['a comment without an end', 'a\n\n<!-- secret\n\nsecret', 'a'],
    ['a comment that ends early for browsers', '<!--> <b t=" -->\n\nsecret', ''],
    ['the attributes of a tag', 'a <b title="secret">b</b>', 'a b'],
    ['a tag that nobody knows', 'a <ignore-all-rules> b', 'a  b'],
    ['a tag in a block of HTML that only browsers know', '<div>\n<b secret | secret>\nb', 'b'],
    ['a value that is not closed in a block of HTML', 'a\n\n<div title="\n\nsecret', 'a'],
    ['a hidden element', 'a <span hidden>secret <span>x</span> secret</span> b', 'a  b'],
    ['an element with a hiding style', 'a <p style="display: none">secret</p> b', 'a  b'],
    ['a hidden element with a comment', 'a <b hidden>x<!-- </b> secret -->secret</b> b', 'a  b'],
    ['the text instead of an image that does not end', 'a ![secret <b hidden>](x)', 'a !['],
    ['a script', 'a\n\n<script>\nsecret\n\nsecret\n</script>\nb', 'a\n\nb'],
    [
      'the text instead of an image',
      'a ![secret [x] secret](https://example.com/i.png) b',
      'a ![](https://example.com/i.png) b',
    ],
    ['the title of a link', '[a](https://example.com "secret") b', '[a](https://example.com) b'],
    ['a definition', 'a\n\n[//]: # (secret)\n\nb', 'a\n\nb'],
    ['a definition over several lines', "[x]:\n  y\n  'secret\nsecret'\n\nb", 'b'],
    ['a footnote', 'a\n\n[^1]: secret secret\n\nb', 'a\n\nb'],
    ['the name of a definition', '[a][secret] b\n\n[secret]: x', '[a][] b'],
    ['words after the marks of code', '```ts secret\nconst a = 1;\n```', '```ts\nconst a = 1;\n```'],
    ['the source of a diagram', 'a\n\n```mermaid\ngraph TD\n%% secret\n```\nb', 'a\n\n[mermaid drawing]\nb'],
    ['the source of a map', '~~~ GeoJSON\n{"x":"secret"}\n~~~\nb', '[geojson drawing]\nb'],
    ['a drawing in a quote', "> ```plantuml\n> ' secret\n> ```\nb", '[plantuml drawing]\nb'],
    ['a drawing in a list', '- ```mermaid\n  %% secret\n- ```\n  secret\n  ```\nb', '[mermaid drawing]\nb'],
    ['a drawing that does not end', 'a\n\n > ```math\n\nsecret\n\nsecret', 'a\n\n[math drawing]'],
    [
      'a comment that begins in what may be a drawing',
      '<div>\n```mermaid\n<!--\n```\nsecret\n-->',
      '[mermaid drawing]',
    ],
    ['a formula with a command', 'a $\\phantom{secret}$ b', 'a $[formula]$ b'],
    ['a formula with a comment', 'a\n$$\nx % secret\n$$\nb', 'a\n$$[formula]$$\nb'],
    ['a formula between backticks', 'a $`\\color{white}{secret}`$ b', 'a $[formula]$ b'],
    ['a formula after an amount', 'for $5 $\\phantom{secret}$ b', 'for $5 $[formula]$ b'],
    ['a formula with an escaped mark', '$\\phantom{x \\$ secret}$', '$[formula]$'],
    ['a formula with other marks', 'a \\(\\phantom{secret}\\) b', 'a \\([formula]\\) b'],
    [
      'words in the target of a link',
      '[a](https://b.example/c?q=secret#secret) d',
      '[a](https://b.example/c) d',
    ],
    ['a target that is a text', '[a](<secret secret>) [b](javascript:secret) c', '[a]() [b]() c'],
    ['a long target', `[a](https://b.example/${'secret/'.repeat(40)}) c`, '[a]() c'],
    ['cells beside a table', '| a |\n|---|\n| b | secret |', '| a |\n|---|\n| b |'],
    ['a comment that only seems to be code', '<div>\n```\n<!-- secret -->\n```\nb', '```\n\n```\nb'],
    ['a comment after code in a list', '- a\n\n  ```\n<!-- secret -->\nb', '- a\n\n  ```\n\nb'],
    ['markup between backticks of different lines', 'a ` b\nc ` <b title="secret"> ` d', 'a ` b\nc `  ` d'],
    ['markup between backticks of different cells', '| ` | <b title="secret"> ` |', '| ` |  ` |'],
    ['zero-width characters', 'a\u200bb\u200cc\u200dd\ufeffe\u2060f', 'abcdef'],
    ['characters that change the direction', 'a\u202eb\u2066c\u2069d\u200fe\u061cf', 'abcdef'],
    ['tag characters', 'a\u{e0001}\u{e0073}\u{e0065}\u{e007f}b', 'ab'],
    ['variation selectors', 'a\ufe0f\u{e0100}\u{e01ef}b', 'ab'],
    ['soft hyphens and fillers', 'a\u00adb\u3164c\u115fd\uffa0e\u2800f', 'abcdef'],
    ['control characters', 'a\u0000b\u0007c\u0085d\u007fe', 'abc\nde'],
    ['sequences for terminals', '\u001b[31ma\u001b[0m\u001b]0;secret\u0007b\u009b1mc\u001b(Bd', 'abcd'],
    ['lone surrogates', 'a\ud800b', 'a\ufffdb'],
    [
      'entities of such characters',
      'a&#8203;b&#x200B;c&#x00000200b d&shy;e&zwj;f&ZeroWidthSpace;g&#xE0041;h&#8238;i',
      'abc defghi',
    ],
  ];

  test.each(hidden)('%s', (_what, text, visible) => {
    expect(visibleText(text)).toBe(visible);
  });
});

describe('what stays of the text of others', () => {
  test.each([
    ['amounts', 'It costs $5 or $10, 50% of $20.'],
    ['a formula that hides nothing', 'a $x_1 + y^2$ b'],
    ['code with marks of formulas', 'Run `$a = \\App::b($c)` and `$d`.'],
    ['a block of code with marks of formulas', '```sh\necho $a\\n$b\n```'],
    [
      'links to lines and comments',
      '[a](https://h.example/b/c.ts#L10-L20) [b](../c/d.md) [c](https://h/1#note_2)',
    ],
    ['an address that is shown', 'See https://h.example/?a=b#c and <https://h.example/?a=b#c>.'],
  ])('%s', (_what, text) => {
    expect(visibleText(text)).toBe(text);
  });

  const shown: readonly (readonly [what: string, text: string])[] = [
    [
      'code with tags and comments',
      'Please use:\n```suggestion\n<!-- keep --><img alt="Logo" title="x">\n```\nThanks',
    ],
    ['PHP', '```php\n<?php echo 1;\n\n?>\n```'],
    ['code on one line', 'use `Array<string>` or ``a`<b>`` here'],
    ['comparisons', 'if a < b && c > d, or x <y'],
    ['generic types that Markdown takes for text', 'a Map<string, number> and a List<A | B>'],
    ['an address in angle brackets', '<https://example.com/a>'],
    ['a remark in brackets', '[nit]: use const here\n- [ ] todo\n- [x] done: m[i][j]'],
    ['links', 'see [this](https://example.com/a_(b)) and "that" (too)'],
    ['other entities', '&lt;b&gt; &amp; &#65; &copy;'],
    [
      'lists, quotes, headings and tables',
      '# a\n> b\n1. c\n   - d\n\n| a | b |\n|---|:-:|\n| 1 | `x` |\n\n---\n\ne',
    ],
    ['other scripts', 'Größe 日本語 שלום مرحبا 👍'],
  ];

  test.each(shown)('%s', (_what, text) => {
    expect(visibleText(text)).toBe(text);
  });
});

describe('what a renderer hides', () => {
  const parts = [
    ...[
      '<b',
      '</b>',
      ' t="',
      " t='",
      '"',
      "'",
      '>',
      '/>',
      '<!--',
      '-->',
      '--!>',
      '`',
      '``',
      '```\n',
      '\n```\n',
      '~~~\n',
    ],
    ...[
      '\n',
      '\n\n',
      '<div>',
      '<div',
      '</div>',
      '\n<pre>',
      '</pre>',
      '\\',
      '- ',
      '> ',
      '# ',
      '|',
      '    ',
      '  ',
      ' $ ',
    ],
    ...[
      '<i>',
      '<?',
      '?>',
      '<!X',
      '=',
      ' ',
      '![',
      '](',
      ')',
      '[',
      ']',
      ']: ',
      '[x]: y',
      ' "',
      '<https://',
      '---\n',
      '1. ',
    ],
    ...['| a | b |\n|---|---|\n', '* * *\n', '&lt;'],
  ];
  const words = fc.integer({ min: 0, max: 9 }).map((n) => ` w${n}w `);
  const texts = fc.array(fc.oneof(words, fc.constantFrom(...parts)), { minLength: 3, maxLength: 16 });

  /** What a browser shows of the HTML that `marked` makes; addresses count as shown. */
  function shownBy(markdown: string): string {
    const html = marked.parse(markdown, { async: false });
    let shown = '';
    for (let at = 0; at < html.length; ) {
      const empty = /^<!---?>/.exec(html.slice(at, at + 6))?.[0];
      let end = at;
      if (empty) end += empty.length;
      else if (html.startsWith('<!--', at)) {
        const ends = ['-->', '--!>'].map((mark) => [html.indexOf(mark, at + 4), mark.length] as const);
        const [first] = ends.filter(([found]) => found !== -1).sort(([a], [b]) => a - b);
        end = first ? first[0] + first[1] : html.length;
      } else if (/^<[!?]/.test(html.slice(at, at + 2))) end = html.indexOf('>', at) + 1 || html.length;
      else if (/^<\/?[A-Za-z]/.test(html.slice(at, at + 3))) {
        end = endOfHtmlTag(html, at, html.length);
        if (end === -1) end = html.length;
        shown += /^<(?:a href|img src|code class)="([^"]*)"/.exec(html.slice(at, end))?.[1] ?? '';
      } else {
        shown += html[at];
        end = at + 1;
      }
      at = end;
    }
    return shown;
  }

  it('is never in what is quoted', () => {
    fc.assert(
      fc.property(texts, (list) => {
        const text = list.map((part, index) => part.replace(/w(\d)w/, `w$1x${index}w`)).join('');
        const shown = shownBy(text);
        const leaked = (visibleText(text).match(/w\dx\d+w/g) ?? []).filter((word) => !shown.includes(word));
        expect(leaked).toEqual([]);
      }),
      { seed: 14, numRuns: 5_000 },
    );
  });
});

describe('a quote', () => {
  it('has the mark of a quote before every line, whatever ends lines', () => {
    expect(quoted('a\n\nb\r\nc\rd\u2028e\u0085f\vg')).toBe('> a\n>\n> b\n> c\n> d\n> e\n> f\n> g');
    expect(
      quoteMarkdown('!command\n```\n~~~\n<!-- x', 1_000)
        .split('\n')
        .every((line) => line.startsWith('>')),
    ).toBe(true);
  });

  it('has at most so many bytes, and says that it was cut', () => {
    const cut = quoteMarkdown('ä\n'.repeat(10_000), 1_000);
    expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(1_000);
    expect(cut).toMatch(/^> ä\n> ä\n(> ä\n)*(>\n)?> \[cut\]$/);
    expect(quoteMarkdown('short', 1_000)).toBe('> short');
    expect(quoteMarkdown(`short\n\nb <!-- ${'x'.repeat(2 ** 20)} -->`, 1_000)).toBe('> short\n> [cut]');
  });

  it('of a log has its end, and its markup as it is', () => {
    const log = quoteLog(`${'line\n'.repeat(1_000)}\u001b[31mexpected <b hidden> & "x"\u001b[0m\n\n`, 200);
    expect(Buffer.byteLength(log)).toBeLessThanOrEqual(200);
    expect(log.startsWith('> [cut]\n> line\n')).toBe(true);
    expect(log.endsWith('\n> expected <b hidden> & "x"')).toBe(true);
    expect(quoteLog('a\nb', 200)).toBe('> a\n> b');
  });

  it('of a title is one line', () => {
    expect(oneLine(' Fix\n the <T>\u202e of  `x` ', 100)).toBe('Fix the <T> of `x`');
    expect(oneLine('👍'.repeat(10), 4)).toBe('👍👍👍…');
  });
});

test.each([
  ...['<a b=">', '<b hidden>\n\n', '<a\n', '![', '[a]: b (\n', '` ``', '|', '\n', 'a\n\n', ' ', '- <!--\n'],
  ...['$\\', '$$ ', '> ```mermaid\n', '```math\n', '[a](b?', '\\(%', '$`a`'],
])('a megabyte of %j is read in linear time', (unit) => {
  const text = unit.repeat(2 ** 20 / unit.length);
  expect(withoutHiddenMarkup(text)).toBeTypeOf('string');
});

it('the beginning of a long text says that it is cut', () => {
  expect(cutMarkdown('short', 100)).toBe('short');
  expect(cutMarkdown('word '.repeat(100), 20)).toBe('word word word\n[cut]');
});
