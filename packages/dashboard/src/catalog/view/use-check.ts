import { InvalidArgumentError } from '@muster/sdk';
import type { Kind, Schema } from '@muster/sdk/contract';
import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';
import { resourcesQuery, useModels } from '../../live/resources.ts';
import { useClient } from '../../session/session.ts';
import { namedKinds } from '../model/document-schema.ts';
import type { Words } from '../model/editor.ts';

interface Violation {
  readonly field: string;
  readonly description: string;
}

interface Check {
  readonly errors: readonly Violation[];
  readonly warnings: readonly Violation[];
}

const nothing: Check = { errors: [], warnings: [] };
/** The service checks a document after a pause in typing. */
const pauseMs = 400;

/** What the service would say about a document: names that resolve to nothing, what a policy forbids. Nothing is written. */
export function useServiceCheck(kind: Kind, name: string, fields: object | null): Check {
  const client = useClient();
  const json = useSettled(fields ? JSON.stringify(fields) : '');
  const { data = nothing } = useQuery({
    queryKey: ['resource-check', kind, name, json],
    enabled: json !== '',
    placeholderData: keepPreviousData,
    gcTime: 60_000,
    queryFn: async ({ signal }): Promise<Check> => {
      try {
        // Operators must give a reason for what they would write.
        const settings = { justification: 'check', signal };
        const { warnings } = await client.catalog.validate(kind, name, JSON.parse(json), settings);
        return { errors: [], warnings };
      } catch (error) {
        if (!(error instanceof InvalidArgumentError)) throw error;
        return { errors: error.fieldViolations, warnings: [] };
      }
    },
  });
  return json === '' ? nothing : data;
}

function useSettled(value: string): string {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value]);
  return value === '' ? '' : settled;
}

/** The names that fields of this kind may have as values. */
export function useWords(kind: Kind): Words {
  const client = useClient();
  const models = useModels();
  const kinds = useMemo(() => namedKinds(kind), [kind]);
  const lists = useQueries({ queries: kinds.map((named) => resourcesQuery(client, named)) });
  const names = new Map(kinds.map((named, at) => [named, lists[at]?.data?.map(({ name }) => name) ?? []]));
  return (field: string, schema: Schema) =>
    field === 'model' ? models : (names.get(schema.names as Kind) ?? []);
}
