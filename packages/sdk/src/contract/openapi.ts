import { errorEnvelope } from './errors.ts';
import { needsKey } from './operations/operation.ts';
import { chapters, type Route, routes } from './routes.ts';
import type { Schema } from './schema.ts';

/** The OpenAPI 3.1 document of the route table. Each schema with a title becomes a component. */
export function openApiDocument(serverUrl: string): Record<string, unknown> {
  const components: Record<string, unknown> = {};

  const publish = (schema: Schema): Record<string, unknown> => {
    const { title, expected, properties, items, anyOf, additionalProperties, ...rest } = schema;
    const isNullable = Array.isArray(rest.type) && rest.type.includes('null') && properties !== undefined;
    const body: Record<string, unknown> = { ...rest };
    if (isNullable) body.type = 'object';
    if (expected !== undefined && rest.description === undefined) body.description = `Must be ${expected}.`;
    if (properties) {
      body.properties = Object.fromEntries(Object.entries(properties).map(([k, s]) => [k, publish(s)]));
    }
    if (items) body.items = publish(items);
    if (anyOf) body.anyOf = anyOf.map(publish);
    if (additionalProperties !== undefined) {
      body.additionalProperties =
        typeof additionalProperties === 'boolean' ? additionalProperties : publish(additionalProperties);
    }
    if (title) components[title] = body;
    const shape = title ? { $ref: `#/components/schemas/${title}` } : body;
    return isNullable ? { anyOf: [shape, { type: 'null' }] } : shape;
  };

  const paths: Record<string, Record<string, unknown>> = {};
  for (const [name, route] of Object.entries<Route>(routes)) {
    paths[route.path] ??= {};
    const path = paths[route.path];
    if (path) path[route.method.toLowerCase()] = operation(name, route, publish);
  }
  const error = publish(errorEnvelope);

  return {
    openapi: '3.1.0',
    info: {
      title: 'Muster',
      version: 'v1',
      description:
        'A control plane for fleets of coding agents. Before the first release, the API may change without notice.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: serverUrl }],
    security: [{ key: [] }],
    tags: Object.entries(chapters).map(([name, { about }]) => ({ name, description: about })),
    paths,
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'mst_<key_id>.<secret>' },
      },
      responses: {
        Error: { description: 'Any failure.', content: { 'application/json': { schema: error } } },
      },
      schemas: Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
    },
  };
}

const streamed = ({ otherEvent }: Route): string =>
  ['Server-Sent Events; the data of each is this schema.', otherEvent?.about].filter(Boolean).join(' ');

function operation(name: string, route: Route, publish: (s: Schema) => Record<string, unknown>) {
  const inPath = [...route.path.matchAll(/\{([^}]+)\}/g)].map(([, parameter = '']) => ({
    name: parameter,
    in: 'path',
    required: true,
    schema: { type: 'string' },
    example: pathExamples[parameter],
  }));
  const inQuery = Object.entries(route.query?.properties ?? {}).map(([parameter, schema]) => ({
    name: parameter,
    in: 'query',
    ...(route.query?.required?.includes(parameter) && { required: true }),
    schema: publish(schema),
  }));
  const inHeader = Object.entries(route.headers ?? {}).map(([parameter, { description, ...schema }]) => ({
    name: parameter,
    in: 'header',
    description,
    schema,
  }));
  const parameters = [...inPath, ...inQuery, ...inHeader];
  const { example } = route;
  const [tag] = Object.entries(chapters).find(([, { operations }]) => name in operations) ?? [];
  return {
    operationId: name,
    summary: route.summary,
    tags: [tag],
    ...(!route.isOriginal && { 'x-addition': true }),
    ...(!needsKey(route) && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(route.body && {
      requestBody: {
        required: route.method === 'POST',
        content: {
          'application/json': { schema: publish(route.body), ...(example !== undefined && { example }) },
        },
      },
    }),
    ...(route.upload && {
      requestBody: {
        required: true,
        content: Object.fromEntries(
          route.upload.map((type) => [type, { schema: { type: 'string', format: 'binary' } }]),
        ),
      },
    }),
    responses: {
      200: {
        description: route.stream ? streamed(route) : 'Done.',
        content: {
          [route.stream ? 'text/event-stream' : 'application/json']: { schema: publish(route.reply) },
          ...Object.fromEntries((route.alsoAs ?? []).map((type) => [type, { schema: { type: 'string' } }])),
        },
      },
      default: { $ref: '#/components/responses/Error' },
    },
  };
}

export const pathExamples: Readonly<Record<string, string>> = {
  'ref.kind': 'persona',
  'ref.name': 'terse',
  pool: 'default',
};
