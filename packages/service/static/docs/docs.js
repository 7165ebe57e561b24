/**
 * The API page: /openapi.json, rendered. It asks this server alone, builds nothing from markup, and needs nothing else.
 * Schemas are unfolded when somebody opens them, so one that contains itself is no trouble.
 */
const methods = ['get', 'post', 'delete'];

const byId = (id) => document.getElementById(id);

/** `h('a.class', { href }, 'text', child)`. What is false or absent is left out. */
function h(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split('.');
  const element = document.createElement(tag);
  if (classes.length > 0) element.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(
    ...children.flat().filter((child) => child !== undefined && child !== false && child !== ''),
  );
  return element;
}

class Page {
  constructor(api) {
    this.api = api;
    this.operations = Object.entries(api.paths).flatMap(([path, item]) =>
      methods
        .filter((method) => item[method])
        .map((method) => ({ path, method, id: item[method].operationId, ...item[method] })),
    );
    this.chapters = api.tags.map((tag) => ({
      ...tag,
      title: tag.name[0].toUpperCase() + tag.name.slice(1),
      operations: this.operations.filter((operation) => operation.tags.includes(tag.name)),
    }));
  }

  show() {
    const { info, servers } = this.api;
    byId('about').replaceChildren(
      info.description,
      ' Every request goes to ',
      h('code', {}, servers[0].url),
      ' and carries a key: ',
      h('code', {}, 'Authorization: Bearer mst_…'),
      '. The document behind this page is ',
      h('a', { href: 'openapi.json' }, 'openapi.json'),
      '.',
    );
    const schemas = Object.keys(this.api.components.schemas);
    byId('content').append(
      ...this.chapters.map((chapter) => this.chapter(chapter)),
      h(
        'section.chapter',
        { id: 'schemas', 'aria-labelledby': 'schemas-title' },
        h('h2', { id: 'schemas-title' }, 'Schemas'),
        h(
          'p',
          {},
          'Every shape that has a name. Unknown fields of a request are ignored; null is the same as absent.',
        ),
        schemas.map((name) => this.schema(name)),
      ),
    );
    byId('contents').append(
      ...this.chapters.map(({ name, title, operations }) =>
        h(
          'div',
          {},
          h('h2', {}, h('a', { href: `#chapter-${name}` }, title)),
          h(
            'ul',
            {},
            operations.map(({ id, method }) => this.entry(id, method)),
          ),
        ),
      ),
      h('div', {}, h('h2', {}, h('a', { href: '#schemas' }, 'Schemas'))),
    );
    byId('content').setAttribute('aria-busy', 'false');
  }

  entry(id, method) {
    return h('li', { 'data-of': id }, h('a', { href: `#${id}` }, badge(method), id));
  }

  chapter({ name, title, description, operations }) {
    return h(
      'section.chapter',
      { id: `chapter-${name}`, 'aria-labelledby': `title-${name}` },
      h('h2', { id: `title-${name}` }, title),
      h('p', {}, description),
      operations.map((operation) => this.operation(operation)),
    );
  }

  operation(operation) {
    const { id, path, method, summary, parameters = [], requestBody, responses } = operation;
    const body = requestBody?.content['application/json'];
    const [[media, reply]] = Object.entries(responses['200'].content);
    return h(
      'article.operation',
      { id, 'aria-labelledby': `title-${id}`, 'data-words': this.words(operation) },
      h(
        'h3',
        { id: `title-${id}` },
        badge(method),
        h('code', {}, path),
        h('a.anchor', { href: `#${id}`, 'aria-label': `Link to ${id}` }, id),
      ),
      h('p', {}, summary),
      this.example(operation, body),
      parameters.length > 0 && [
        h('h4', {}, 'Parameters'),
        h(
          'ul.fields',
          {},
          parameters.map(({ name, in: place, required, schema, description }) =>
            this.field(
              name,
              { description, ...schema },
              { note: `in ${place}${required ? ', required' : ''}` },
            ),
          ),
        ),
      ],
      body && this.fold('Request', body.schema, { isOpen: true }),
      this.fold(media === 'text/event-stream' ? 'Each event' : 'Reply', reply.schema, { isReply: true }),
    );
  }

  /** Everything about an operation that one may search for. */
  words({ id, path, summary, tags, parameters = [], requestBody, responses }) {
    const fields = new Set(parameters.map(({ name }) => name));
    const collect = (schema, depth) => {
      const shape = this.resolve(schema);
      for (const [name, inner] of Object.entries(shape.properties ?? {})) {
        fields.add(name);
        if (depth > 0) collect(inner, depth - 1);
      }
      if (shape.items) collect(shape.items, depth);
    };
    for (const { content } of [requestBody, responses['200']].filter(Boolean))
      for (const { schema } of Object.values(content)) collect(schema, 2);
    return [id, path, summary, ...tags, ...fields].join(' ').toLowerCase();
  }

  example({ path, method, parameters = [], responses }, body) {
    if (body && body.example === undefined) return undefined;
    const examples = new Map(parameters.map(({ name, example }) => [name, example]));
    const url =
      this.api.servers[0].url + path.replace(/\{([^}]+)\}/g, (_, name) => examples.get(name) ?? name);
    const isStream = 'text/event-stream' in responses['200'].content;
    const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
    const command = [
      `curl ${isStream ? '-N ' : ''}${method === 'get' || body ? '' : `-X ${method.toUpperCase()} `}${url}`,
      '-H "Authorization: Bearer $MUSTER_API_KEY"',
      body && "-H 'Content-Type: application/json'",
      body && `-d ${quoted(pretty(body.example))}`,
    ]
      .filter(Boolean)
      .join(' \\\n  ');
    const copy = async ({ currentTarget: button }) => {
      await navigator.clipboard.writeText(command);
      button.textContent = 'Copied';
      setTimeout(() => {
        button.textContent = 'Copy';
      }, 2000);
    };
    return h(
      'div.example',
      {},
      h('pre', { tabindex: '0', 'aria-label': 'Example' }, h('code', {}, command)),
      navigator.clipboard && h('button', { type: 'button', click: copy }, 'Copy'),
    );
  }

  schema(name) {
    const { description } = this.api.components.schemas[name];
    return h(
      'article.schema',
      { id: `schema-${name}`, 'aria-labelledby': `title-schema-${name}` },
      h('h3', { id: `title-schema-${name}` }, h('code', {}, name)),
      description && h('p.about', {}, description),
      this.fold('Fields', this.api.components.schemas[name]),
    );
  }

  /** A schema to unfold; one that is open from the start is filled at once. What a reply has, it always has. */
  fold(title, schema, { isOpen = false, isReply = false } = {}) {
    const details = h('details', {}, h('summary', {}, title, ' ', h('span.type', {}, this.type(schema))));
    const fill = () => {
      if (details.childElementCount === 1) details.append(this.inside(schema, isReply));
    };
    details.addEventListener('toggle', () => details.open && fill());
    if (isOpen) {
      fill();
      details.open = true;
    }
    return details;
  }

  inside(schema, isReply) {
    const shape = this.shape(schema);
    const fields = Object.entries(shape.properties ?? {});
    if (shape.enum) return values(shape);
    if (fields.length === 0) return h('p.note', {}, shape.description ?? 'It has no fields.');
    const isRequired = (name) => !isReply && shape.required?.includes(name);
    return h(
      'ul.fields',
      {},
      fields.map(([name, inner]) =>
        this.field(name, inner, { note: isRequired(name) && 'required', isReply }),
      ),
    );
  }

  field(name, schema, { note, isReply }) {
    const shape = this.shape(schema);
    const title = h('code.name', {}, name);
    const { description = shape.enum && this.resolve(schema).description } = schema;
    return h(
      'li',
      {},
      shape.properties
        ? this.fold(title, schema, { isReply })
        : [title, h('span.type', {}, this.type(schema)), note && h('span.note', {}, note)],
      description && h('p', {}, description),
      shape.enum && values(shape),
    );
  }

  /** What a reader finds inside: behind references, behind `or null`, behind a list. */
  shape(schema) {
    const resolved = this.resolve(schema);
    const one = resolved.anyOf?.find(({ type }) => type !== 'null');
    if (one && resolved.anyOf.length === 2) return this.shape(one);
    return resolved.items ? this.shape(resolved.items) : resolved;
  }

  resolve({ $ref, ...schema }) {
    return $ref ? this.api.components.schemas[nameIn($ref)] : schema;
  }

  type(schema) {
    const { $ref, anyOf, items, type, format, additionalProperties } = schema;
    if ($ref) return nameIn($ref);
    if (anyOf) return anyOf.map((each) => this.type(each)).join(' or ');
    if (items) return `list of ${this.type(items)}`;
    if (format === 'int64')
      return Array.isArray(type) ? '64-bit integer, as text or number' : '64-bit integer, as text';
    if (additionalProperties && !schema.properties) return 'object';
    if (type === undefined) return 'anything';
    return [type].flat().join(' or ') + (format ? ` (${format})` : '');
  }
}

/** JSON in which what is short stays on its line. */
function pretty(value, indent = '') {
  const line = JSON.stringify(value, null, 1)
    .replace(/\s*\n\s*/g, ' ')
    .replace(/\[ | \]/g, (edge) => edge.trim());
  if (typeof value !== 'object' || value === null || indent.length + line.length <= 64) return line;
  const deeper = `${indent}  `;
  const parts = Array.isArray(value)
    ? value.map((each) => `${deeper}${pretty(each, deeper)}`)
    : Object.entries(value).map(
        ([name, each]) => `${deeper}${JSON.stringify(name)}: ${pretty(each, deeper)}`,
      );
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return `${open}\n${parts.join(',\n')}\n${indent}${close}`;
}

const nameIn = (ref) => ref.slice(ref.lastIndexOf('/') + 1);

const badge = (method) => h(`span.method.${method}`, {}, method === 'delete' ? 'DEL' : method.toUpperCase());

const values = ({ enum: all }) =>
  h(
    'p.values',
    {},
    'One of ',
    all.filter((value) => value !== '').flatMap((value, i) => [i > 0 && ', ', h('code', {}, value)]),
  );

/** Hides what does not hold every word that was typed. */
function search() {
  const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const operation of document.querySelectorAll('.operation')) {
    const fits = words.every((word) => operation.dataset.words.includes(word));
    operation.hidden = !fits;
    document.querySelector(`[data-of="${operation.id}"]`).hidden = !fits;
    if (fits) found += 1;
  }
  for (const schema of document.querySelectorAll('.schema'))
    schema.hidden = !words.every((word) => schema.id.toLowerCase().includes(word));
  for (const group of document.querySelectorAll('.chapter')) {
    group.hidden = !group.querySelector(':is(.operation, .schema):not([hidden])');
    document.querySelector(`nav a[href="#${group.id}"]`).closest('div').hidden = group.hidden;
  }
  byId('found').textContent = words.length === 0 ? '' : found === 1 ? '1 operation' : `${found} operations`;
}

function listen() {
  const input = byId('search');
  input.addEventListener('input', search);
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
    }
    if (event.key === 'Escape' && event.target === input) {
      input.value = '';
      search();
    }
  });
}

/** Marks in the contents what is being read: the operation that crosses a line in the upper part of the window. */
function follow() {
  const observer = new IntersectionObserver(
    (changes) => {
      const read = changes.find(({ isIntersecting }) => isIntersecting);
      if (!read) return;
      document.querySelector('nav a[aria-current]')?.removeAttribute('aria-current');
      document.querySelector(`nav [data-of="${read.target.id}"] a`)?.setAttribute('aria-current', 'true');
    },
    { rootMargin: '-20% 0px -79% 0px' },
  );
  for (const operation of document.querySelectorAll('.operation')) observer.observe(operation);
}

try {
  const response = await fetch('openapi.json');
  if (!response.ok) throw new Error(`it answered ${response.status}`);
  new Page(await response.json()).show();
  listen();
  follow();
  if (location.hash) document.querySelector(location.hash)?.scrollIntoView({ behavior: 'instant' });
} catch (error) {
  byId('about').textContent = `openapi.json cannot be shown: ${error.message}`;
}
