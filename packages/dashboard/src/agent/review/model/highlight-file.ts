import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import dockerfile from 'highlight.js/lib/languages/dockerfile';
import go from 'highlight.js/lib/languages/go';
import graphql from 'highlight.js/lib/languages/graphql';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import lua from 'highlight.js/lib/languages/lua';
import makefile from 'highlight.js/lib/languages/makefile';
import markdown from 'highlight.js/lib/languages/markdown';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import scss from 'highlight.js/lib/languages/scss';
import sql from 'highlight.js/lib/languages/sql';
import swift from 'highlight.js/lib/languages/swift';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import type { DiffLine } from './diff-lines.ts';
import {
  colouredFileLength,
  colouredFileLines,
  colouredLineLength,
  coloursOf,
  type LineColours,
} from './highlight.ts';

const languages = {
  ...{
    bash,
    c,
    cpp,
    csharp,
    css,
    dockerfile,
    go,
    graphql,
    ini,
    java,
    javascript,
    json,
    kotlin,
    lua,
    makefile,
  },
  ...{ markdown, php, python, ruby, rust, scss, sql, swift, typescript, xml, yaml },
};
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);

/** The colours of the lines of a diff, by index. Both files are read as a whole: a comment may have many lines. */
export function highlightFile(
  lines: readonly DiffLine[],
  language: string,
): readonly (LineColours | undefined)[] {
  const colours: (LineColours | undefined)[] = [];
  const length = lines.reduce((sum, { text }) => sum + text.length, 0);
  if (!hljs.getLanguage(language) || lines.length > colouredFileLines || length > colouredFileLength)
    return colours;
  for (const other of ['added', 'removed'] as const) {
    const own = lines.flatMap(({ side }, index) => (hasSide(side, other) ? [index] : []));
    const text = own.map((index) => codeOf(lines[index] as DiffLine)).join('\n');
    const found = coloursOf(hljs.highlight(text, { language, ignoreIllegals: true }).value);
    for (const [at, index] of own.entries()) colours[index] = found[at];
  }
  return colours;
}

/** Whether a line is in the file after the change (`added`) or before it. */
const hasSide = (side: DiffLine['side'], of: 'added' | 'removed'): boolean =>
  side === of || side === 'same' || side === 'hunk';

const codeOf = ({ text, side }: DiffLine): string =>
  side === 'hunk' || text.length > colouredLineLength ? '' : text.slice(1);
