/** Renders /openapi.json. Schemas are rendered when they are opened, because some contain themselves. */
// The theme that was chosen in the dashboard.
document.documentElement.dataset.theme = localStorage.getItem('muster.theme') ?? 'auto';

const byId = (id) => document.getElementById(id);

/** `h('a.class', { href }, 'text', child)`. Children and attributes that are false or undefined are left out. */
function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElement(tag);
  element.className = classes.join(' ');
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined) element.setAttribute(key, value);
  element.append(...children.flat().filter((child) => child !== undefined && child !== false));
  return element;
}

const badge = (method) => h(`span.method.${method}`, {}, method.toUpperCase(), ' ');
const nameIn = (ref) => ref.slice(ref.lastIndexOf('/') + 1);
const resolve = ({ $ref, ...schema }) => ($ref ? api.components.schemas[nameIn($ref)] : schema);

/** The schema behind references, behind `or null`, and of the items of a list. */
function shapeOf(schema) {
  const { items, anyOf, ...shape } = resolve(schema);
  const options = anyOf?.filter(({ type }) => type !== 'null') ?? [];
  if (options.length === 1) return shapeOf(options[0]);
  return items ? shapeOf(items) : shape;
}

function typeOf({ $ref, anyOf, items, type, format, additionalProperties, properties }) {
  if ($ref) return nameIn($ref);
  if (anyOf) return anyOf.map(typeOf).join(' or ');
  if (items) return `list of ${typeOf(items)}`;
  if (format === 'int64') return `64-bit integer, as text${Array.isArray(type) ? ' or number' : ''}`;
  if (additionalProperties && !properties) return 'object';
  return type === undefined ? 'any value' : [type].flat().join(' or ') + (format ? ` (${format})` : '');
}

const valuesOf = ({ enum: values }) =>
  h(
    'p',
    {},
    'One of ',
    values.filter((value) => value !== '').flatMap((value, i) => [i > 0 && ', ', h('code', {}, value)]),
  );

/** Every field of a reply is always present, so only fields of a request are marked as required. */
function fieldsOf(schema, isReply) {
  const shape = shapeOf(schema);
  if (shape.enum) return valuesOf(shape);
  const fields = Object.entries(shape.properties ?? {});
  if (fields.length === 0) return h('p.note', {}, shape.description ?? 'No fields.');
  const note = (name) => (!isReply && shape.required?.includes(name) ? 'required' : undefined);
  return h(
    'ul.fields',
    {},
    fields.map(([name, inner]) => field(name, inner, note(name), isReply)),
  );
}

function field(name, schema, note, isReply) {
  const shape = shapeOf(schema);
  const title = h('code', {}, h('strong', {}, name));
  const description = schema.description ?? (shape.enum && resolve(schema).description);
  return h(
    'li',
    {},
    shape.properties
      ? unfold(title, schema, { isReply })
      : [title, h('span.type', {}, typeOf(schema)), note && h('span.note', {}, note)],
    description && h('p', {}, description),
    shape.enum && valuesOf(shape),
  );
}

function unfold(title, schema, { isOpen = false, isReply = false } = {}) {
  const details = h('details', {}, h('summary', {}, title, ' ', h('span.type', {}, typeOf(schema))));
  const fill = () => details.childElementCount === 1 && details.append(fieldsOf(schema, isReply));
  details.addEventListener('toggle', fill);
  if (isOpen) fill();
  details.open = isOpen;
  return details;
}

/** JSON with short arrays and objects on one line. */
const jsonText = (value) =>
  JSON.stringify(value, null, 2).replace(
    /([[{])\s+([^[\]{}]{1,60}?)\s+([\]}])/g,
    (_, open, inner, close) => `${open} ${inner.replace(/\s*\n\s*/g, ' ')} ${close}`,
  );

/** A command that calls the operation, with a button to copy it. */
function example({ path, method, parameters = [], responses }, body) {
  if (body && body.example === undefined) return undefined;
  const values = new Map(parameters.map(({ name, example: value }) => [name, value]));
  const url = api.servers[0].url + path.replace(/\{([^}]+)\}/g, (_, name) => values.get(name) ?? name);
  const options = [
    'text/event-stream' in responses['200'].content && '-N ',
    method !== 'get' && !body && `-X ${method.toUpperCase()} `,
  ];
  const command = [
    `curl ${options.filter(Boolean).join('')}${url}`,
    '-H "Authorization: Bearer $MUSTER_API_KEY"',
    body && "-H 'Content-Type: application/json'",
    body && `-d '${jsonText(body.example).replaceAll("'", "'\\''")}'`,
  ]
    .filter(Boolean)
    .join(' \\\n  ');
  const copy = h('button', { type: 'button' }, 'Copy');
  copy.addEventListener('click', async () => {
    await navigator.clipboard.writeText(command);
    copy.textContent = 'Copied';
  });
  const code = h('pre', { tabindex: '0', 'aria-label': 'Example' }, h('code', {}, command));
  return h('div.example', {}, navigator.clipboard && copy, code);
}

/** The text that the search looks through: names, path, summary and fields down to the third level. */
function searchText({ id, path, summary, tags, parameters = [], requestBody, responses }) {
  const fieldNames = (schema, depth) => {
    const { properties = {} } = shapeOf(schema);
    const inner = depth > 0 ? Object.values(properties).flatMap((one) => fieldNames(one, depth - 1)) : [];
    return [...Object.keys(properties), ...inner];
  };
  const contents = [requestBody, responses['200']].flatMap((part) => Object.values(part?.content ?? {}));
  const fields = contents.flatMap(({ schema }) => fieldNames(schema, 2));
  return [id, path, summary, ...tags, ...parameters.map(({ name }) => name), ...fields]
    .join(' ')
    .toLowerCase();
}

function operationArticle(operation) {
  const { id, path, method, summary, parameters = [], requestBody, responses } = operation;
  const body = requestBody?.content['application/json'];
  const [[media, reply]] = Object.entries(responses['200'].content);
  const noteOf = ({ in: place, required }) => `in ${place}${required ? ', required' : ''}`;
  return h(
    'article.operation',
    { id, 'aria-labelledby': `title-${id}`, 'data-search': searchText(operation) },
    h('h3', { id: `title-${id}` }, badge(method), h('code', {}, path), h('a', { href: `#${id}` }, id)),
    h('p', {}, summary),
    example(operation, body),
    parameters.length > 0 && [
      h('h4', {}, 'Parameters'),
      h(
        'ul.fields',
        {},
        parameters.map((one) =>
          field(one.name, { description: one.description, ...one.schema }, noteOf(one)),
        ),
      ),
    ],
    body && unfold('Request', body.schema, { isOpen: true }),
    unfold(media === 'text/event-stream' ? 'Each event' : 'Reply', reply.schema, { isReply: true }),
  );
}

const schemaArticle = ([name, schema]) =>
  h(
    'article.schema',
    { id: `schema-${name}`, 'aria-labelledby': `title-schema-${name}`, 'data-search': name.toLowerCase() },
    h('h3', { id: `title-schema-${name}` }, h('code', {}, name)),
    schema.description && h('p', {}, schema.description),
    unfold('Fields', schema),
  );

/** Adds a chapter to the page and to the contents. */
function addChapter(id, title, description, articles, links) {
  const heading = h('h2', { id: `title-${id}` }, title);
  byId('content').append(
    h(
      'section.chapter',
      { id, 'aria-labelledby': `title-${id}` },
      heading,
      h('p', {}, description),
      articles,
    ),
  );
  const list = links.length > 0 && h('ul', {}, links);
  byId('contents').append(h('div', { 'data-of': id }, h('h2', {}, h('a', { href: `#${id}` }, title)), list));
}

function showPage() {
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, one]) => ({ ...one, path, method, id: one.operationId })),
  );
  byId('about').replaceChildren(
    `${api.info.description} Every request goes to `,
    h('code', {}, api.servers[0].url),
    ' and carries a key: ',
    h('code', {}, 'Authorization: Bearer mst_…'),
    '. This page shows ',
    h('a', { href: 'openapi.json' }, 'openapi.json'),
    '.',
  );
  for (const { name, description } of api.tags) {
    const own = operations.filter(({ tags }) => tags.includes(name));
    const links = own.map(({ id, method }) =>
      h('li', { 'data-of': id }, h('a', { href: `#${id}` }, badge(method), id)),
    );
    const title = name[0].toUpperCase() + name.slice(1);
    addChapter(`chapter-${name}`, title, description, own.map(operationArticle), links);
  }
  const note = 'Unknown fields of a request are ignored; null is the same as absent.';
  addChapter('schemas', 'Schemas', note, Object.entries(api.components.schemas).map(schemaArticle), []);
  byId('content').setAttribute('aria-busy', 'false');
}

/** Hides every operation and schema that does not contain all words. */
function search() {
  const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  const setHidden = (element, isHidden) => {
    element.hidden = isHidden;
    const link = document.querySelector(`[data-of="${element.id}"]`);
    if (link) link.hidden = isHidden;
  };
  for (const article of document.querySelectorAll('article'))
    setHidden(article, !words.every((word) => article.dataset.search.includes(word)));
  for (const chapter of document.querySelectorAll('.chapter'))
    setHidden(chapter, !chapter.querySelector('article:not([hidden])'));
  const found = document.querySelectorAll('.operation:not([hidden])').length;
  byId('found').textContent = words.length === 0 ? '' : `${found} operation${found === 1 ? '' : 's'}`;
}

function listenToSearch() {
  const input = byId('search');
  input.addEventListener('input', search);
  document.addEventListener('keydown', (event) => {
    const { key, target, ctrlKey, metaKey, altKey } = event;
    if (key === '/' && target !== input && !ctrlKey && !metaKey && !altKey) {
      event.preventDefault();
      input.focus();
    }
    if (key === 'Escape' && target === input) {
      input.value = '';
      search();
    }
  });
}

/** Marks the operation in the upper part of the window in the contents. */
function markCurrent() {
  const observer = new IntersectionObserver(
    (changes) => {
      const current = changes.find(({ isIntersecting }) => isIntersecting);
      if (!current) return;
      document.querySelector('nav a[aria-current]')?.removeAttribute('aria-current');
      document.querySelector(`nav [data-of="${current.target.id}"] a`)?.setAttribute('aria-current', 'true');
    },
    { rootMargin: '-20% 0px -79% 0px' },
  );
  for (const operation of document.querySelectorAll('.operation')) observer.observe(operation);
}

let api;
try {
  const response = await fetch('openapi.json');
  if (!response.ok) throw new Error(`status ${response.status}`);
  api = await response.json();
  showPage();
  listenToSearch();
  markCurrent();
  if (location.hash) document.querySelector(location.hash)?.scrollIntoView();
} catch (error) {
  byId('about').textContent = `Can't load openapi.json: ${error.message}`;
}
