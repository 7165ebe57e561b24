import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What the tidy test knows about the source: which files there are, what they import, and the texts they hold. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

export interface Source {
  /** From the root of the repository, with `/`. */
  readonly path: string;
  readonly room: string;
  readonly isTest: boolean;
  readonly lines: number;
  /** The code with comments and the insides of texts blanked out. */
  readonly code: string;
  /** The insides of the texts: quoted ones and templates. */
  readonly texts: readonly string[];
  readonly imports: readonly Import[];
}

export interface Import {
  readonly specifier: string;
  /** The file it leads to, if it is one of ours; else null. */
  readonly file: string | null;
  /** The room it leads to, if it is one of ours; else null. */
  readonly room: string | null;
}

const skipped = new Set(['node_modules', 'dist', 'coverage', '.git', '.muster']);
const builtPage = 'packages/service/static/dashboard';

/** Every file of the repository that is not made by a build, an install or a run. */
export function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder ? `${folder}/${entry.name}` : entry.name;
    if (skipped.has(entry.name) || path === builtPage || entry.name.endsWith('.tsbuildinfo')) return [];
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}

export const readText = (path: string): string => readFileSync(join(root, path), 'utf8');

export function packageFiles(): string[] {
  const packages = readdirSync(join(root, 'packages')).map((name) => `packages/${name}/package.json`);
  return ['package.json', ...packages, 'test/openapi/package.json'];
}

/** The TypeScript of every package, tests included. */
export function readSources(): Source[] {
  return readdirSync(join(root, 'packages'))
    .flatMap((name) => filesBelow(`packages/${name}/src`))
    .filter((path) => /\.tsx?$/.test(path))
    .map(readSource);
}

function readSource(path: string): Source {
  const text = readText(path);
  // Between tags stands prose, where an apostrophe opens no text: there Biome's own rules are the guard.
  const { code, texts, uncommented } = path.endsWith('.tsx')
    ? { code: '', texts: [], uncommented: text }
    : scan(text);
  return {
    path,
    room: roomOf(path),
    isTest: /\.test\.tsx?$/.test(path),
    lines: text.split('\n').length - 1,
    code,
    texts,
    imports: specifiersIn(uncommented).map((specifier) => importOf(path, specifier)),
  };
}

/** `packages/service/src/control/catalog/catalog.ts` → `control`; a package without rooms is one room. */
function roomOf(path: string): string {
  const [, name = '', , room = ''] = path.split('/');
  return name === 'dashboard' ? 'dashboard' : room;
}

const sdkRooms: Readonly<Record<string, string>> = {
  '@muster/sdk': 'client',
  '@muster/sdk/contract': 'contract',
};

function importOf(from: string, specifier: string): Import {
  if (!specifier.startsWith('.')) return { specifier, file: null, room: sdkRooms[specifier] ?? null };
  const file = relative(root, join(root, dirname(from), specifier))
    .split(sep)
    .join('/');
  return { specifier, file, room: roomOf(file) };
}

function specifiersIn(code: string): string[] {
  const forms = [
    /\b(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/g,
    /\bimport\s*['"]([^'"]+)['"]/g,
    /\bimport\s*\(\s*['"]([^'"]+)['"]/g,
  ];
  return [
    ...new Set(forms.flatMap((form) => [...code.matchAll(form)].map(([, specifier = '']) => specifier))),
  ];
}

/** After one of these a `/` begins a regular expression; after anything else it divides. */
const beforePattern = /(?:^|[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|in|of|void))$/;

interface Scanned {
  readonly code: string;
  readonly uncommented: string;
  readonly texts: readonly string[];
}

/**
 * One pass over the text that tells code, comments, texts and regular expressions apart. A template's `${…}` is code
 * again, so the pass keeps a stack of the templates it is inside of, each with the depth of its braces.
 */
function scan(source: string): Scanned {
  let code = '';
  let uncommented = '';
  const texts: string[] = [];
  const templates: { braces: number; text: string }[] = [];
  let at = 0;
  const take = (length: number, isCode: boolean): string => {
    const piece = source.slice(at, at + length);
    code += isCode ? piece : piece.replace(/[^\n]/g, ' ');
    uncommented += piece;
    at += length;
    return piece;
  };
  const length = (pattern: RegExp): number => {
    pattern.lastIndex = at;
    return pattern.exec(source)?.[0].length ?? 1;
  };
  const template = (text: string): void => {
    const piece = take(length(/(?:[^`\\$]|\\[\s\S]|\$(?!\{))*/y), false);
    const whole = `${text}${piece}`;
    if (source.startsWith('${', at)) {
      take(2, true);
      templates.push({ braces: 0, text: `${whole}…` });
      return;
    }
    take(1, true);
    texts.push(whole);
  };

  while (at < source.length) {
    const next = source[at] ?? '';
    const inner = templates.at(-1);
    if (source.startsWith('//', at) || source.startsWith('/*', at)) {
      const comment = length(source[at + 1] === '/' ? /\/\/[^\n]*/y : /\/\*[\s\S]*?\*\//y);
      code += source.slice(at, at + comment).replace(/[^\n]/g, ' ');
      at += comment;
    } else if (next === "'" || next === '"') {
      const quoted = next === "'" ? /'(?:[^'\\\n]|\\[\s\S])*'/y : /"(?:[^"\\\n]|\\[\s\S])*"/y;
      texts.push(take(length(quoted), false).slice(1, -1));
    } else if (next === '`') {
      take(1, true);
      template('');
    } else if (next === '/' && beforePattern.test(code.trimEnd())) {
      take(length(/\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y), false);
    } else if (next === '}' && inner?.braces === 0) {
      take(1, true);
      templates.pop();
      template(inner.text);
    } else {
      if (inner && next === '{') inner.braces += 1;
      if (inner && next === '}') inner.braces -= 1;
      take(1, true);
    }
  }
  return { code, uncommented, texts };
}
