import type { Provider } from '@muster/sdk/contract';
import type { RouteContext } from '../context.ts';
import { serve } from '../route.ts';

type Query = Readonly<Record<string, string>>;

/** The tenant namespace of a query, in whichever of its three spellings. */
const tenantOf = (query: Query) => ({
  provider: (query['ref.tenant.provider'] ?? query['tenant.provider'] ?? query.provider) as
    | Provider
    | undefined,
  org: query['ref.tenant.org'] ?? query['tenant.org'] ?? query.org,
});

const refOf = (params: Query) => ({ kind: params.kind ?? '', name: params.name ?? '' });

export function catalogRoutes(context: RouteContext): void {
  const { catalog } = context.control;

  serve(context, 'writeResource', ({ caller, body, params }) => catalog.write(caller, refOf(params), body));

  serve(context, 'readResource', ({ caller, query, params }) =>
    catalog.read(caller, tenantOf(query), refOf(params)),
  );

  serve(context, 'listResources', ({ caller, query, params }) =>
    catalog.list(
      caller,
      tenantOf(query),
      params.kind ?? '',
      Number(query.pageSize ?? 0),
      query.pageToken ?? '',
    ),
  );

  serve(context, 'deleteResource', ({ caller, query, body, params }) =>
    catalog.delete(
      caller,
      tenantOf(query),
      refOf(params),
      query.ifGenerationMatch,
      query.justification || body.justification,
    ),
  );

  serve(context, 'resourceHistory', ({ caller, query, params }) =>
    catalog.history(
      caller,
      tenantOf(query),
      refOf(params),
      Number(query.pageSize ?? 0),
      query.pageToken ?? '',
    ),
  );
}
