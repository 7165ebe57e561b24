// Prints the changes of a release, for its page: node scripts/release-notes.mjs v0.1.0
// Fails unless every package has that version and CHANGELOG.md has a section with its date.
import { readFileSync } from 'node:fs';

const [tag = ''] = process.argv.slice(2);
const version = tag.replace(/^v/, '');
const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');

function fail(text) {
  console.error(text);
  process.exit(1);
}

for (const name of ['dashboard', 'sdk', 'service']) {
  const path = `packages/${name}/package.json`;
  const found = JSON.parse(read(path)).version;
  if (found !== version) fail(`${path}: the version is ${found}, but the tag is ${tag}`);
}
const path = 'packages/service/src/lib/version.ts';
if (!read(path).includes(`'${version}'`)) fail(`${path}: the version is not ${version}`);

const sections = read('CHANGELOG.md').split(/^## /m);
const section = sections.find((text) => text.startsWith(`${version} – `)) ?? '';
const [title, ...lines] = section.split('\n');
if (!/\d{4}-\d{2}-\d{2}$/.test(title)) fail(`CHANGELOG.md: expected a section "## ${version} – YYYY-MM-DD"`);
console.log(lines.join('\n').trim());
