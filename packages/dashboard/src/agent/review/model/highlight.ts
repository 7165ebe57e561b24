/** What a part of the code is, by the digit that the worker sends. `0` is plain. */
export const codeClasses = [
  '',
  'code-comment',
  'code-keyword',
  'code-string',
  'code-number',
  'code-name',
  'code-type',
  'code-attribute',
  'code-meta',
] as const;

/** The highlighter's scopes, without what follows a dot or an underscore. Others are plain. */
const classOfScope: Readonly<Record<string, number>> = {
  ...{ comment: 1, quote: 1, doctag: 1, keyword: 2, literal: 4, selector: 2, operator: 0, string: 3 },
  ...{ regexp: 3, char: 3, link: 3, addition: 0, deletion: 0, number: 4, symbol: 4, bullet: 4, title: 5 },
  ...{ section: 5, name: 2, function: 0, class: 0, type: 6, built: 6, tag: 0, attr: 7, attribute: 7 },
  ...{ property: 7, variable: 7, template: 7, meta: 8, params: 0, subst: 0 },
};

/** Of each line: length and class of its parts in turn. What is left of the line is plain. */
export type LineColours = readonly number[];

const entities: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#x27;': "'",
};

/** Reads the highlighter's HTML, which has only spans and escaped text, into the colours of each line. */
export function coloursOf(html: string): readonly LineColours[] {
  const lines: number[][] = [[]];
  const scopes: number[] = [0];
  const add = (length: number) => {
    const line = lines.at(-1) as number[];
    const kind = scopes.at(-1) as number;
    if (length === 0) return;
    if (line.length > 0 && line.at(-1) === kind) (line[line.length - 2] as number) += length;
    else line.push(length, kind);
  };
  for (const [part, scope] of html.matchAll(/<span class="([^"]*)">|<\/span>|&[^;]+;|\n|[^<&\n]+/g)) {
    if (scope !== undefined) scopes.push(kindOf(scope) ?? (scopes.at(-1) as number));
    else if (part === '</span>') scopes.pop();
    else if (part === '\n') lines.push([]);
    else add((entities[part] ?? part).length);
  }
  return lines;
}

/** `hljs-title function_` → the class of `title`. */
function kindOf(names: string): number | undefined {
  const [scope = ''] = /[a-z]+/.exec(names.replace(/^hljs-/, '')) ?? [];
  return classOfScope[scope];
}

const languagesByEnding: Readonly<Record<string, string>> = {
  ...{ ts: 'typescript', tsx: 'typescript', mts: 'typescript', cts: 'typescript' },
  ...{ js: 'javascript', jsx: 'javascript', mjs: 'javascript', cjs: 'javascript' },
  ...{ py: 'python', pyi: 'python', go: 'go', rs: 'rust', java: 'java', kt: 'kotlin', kts: 'kotlin' },
  ...{ swift: 'swift', c: 'c', h: 'cpp', cc: 'cpp', cpp: 'cpp', cxx: 'cpp', hpp: 'cpp', cs: 'csharp' },
  ...{ rb: 'ruby', php: 'php', sh: 'bash', bash: 'bash', zsh: 'bash', sql: 'sql', json: 'json' },
  ...{ yaml: 'yaml', yml: 'yaml', html: 'xml', xml: 'xml', svg: 'xml', vue: 'xml', css: 'css' },
  ...{ scss: 'scss', less: 'scss', md: 'markdown', toml: 'ini', ini: 'ini', cfg: 'ini' },
  ...{ graphql: 'graphql', gql: 'graphql', lua: 'lua', mk: 'makefile' },
};
const languagesByName: Readonly<Record<string, string>> = {
  dockerfile: 'dockerfile',
  containerfile: 'dockerfile',
  makefile: 'makefile',
  gemfile: 'ruby',
  rakefile: 'ruby',
};

/** The highlighter's language for a file; empty if it has none. */
export function languageOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
  const ending = name.slice(name.lastIndexOf('.') + 1);
  return languagesByName[name] ?? (name.includes('.') ? (languagesByEnding[ending] ?? '') : '');
}

/** A longer line is plain, and the highlighter does not see it: some of its expressions need quadratic time. */
export const colouredLineLength = 1_000;
/** Of a longer file, or one with more characters, all lines are plain. */
export const colouredFileLines = 20_000;
export const colouredFileLength = 512 * 1024;
