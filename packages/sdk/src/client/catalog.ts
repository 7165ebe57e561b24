import type { documents } from '../contract/documents.ts';
import type { Role, Tenant } from '../contract/identity.ts';
import type { Infer } from '../contract/infer.ts';
import type { Kind } from '../contract/resource.ts';
import type { ReplyOf } from '../contract/routes.ts';
import { type Caller, type CallSettings, settingsOf } from './caller.ts';
import { FailedPreconditionError, NotFoundError } from './errors.ts';
import type { Int64, Int64Input } from './int64.ts';
import { decodePayload, encodePayload } from './json-payload.ts';
import { mintId } from './mint-id.ts';
import { type Page, pages } from './pages.ts';
import { delayMs, pause } from './persistence.ts';

/** The document of a kind. Documents are open: fields that the contract does not know are kept as they are. */
export type DocumentOf<K extends string> = (K extends Kind ? Infer<(typeof documents)[K]> : unknown) & {
  [field: string]: unknown;
};

/** Any spelling of a kind that the service reads. */
export type KindName = Kind | (string & {});

export interface CatalogSettings extends CallSettings {
  /** Another tenant than the caller's; for operators. */
  readonly tenant?: Partial<Tenant> | undefined;
}

export interface PageSettings extends CatalogSettings {
  readonly pageSize?: number | undefined;
  readonly pageToken?: string | undefined;
}

export interface DeleteSettings extends CatalogSettings {
  /** Only if the current generation is this. */
  readonly ifGenerationMatch?: Int64Input | undefined;
  /** Goes on record; required of operators. */
  readonly justification?: string | undefined;
}

export interface WriteSettings extends DeleteSettings {
  /** The paths to take from the document; without it the document is the whole resource. */
  readonly updateMask?: string | readonly string[] | undefined;
}

export interface ChangeSettings extends Omit<WriteSettings, 'ifGenerationMatch' | 'updateMask'> {
  /** How often to read again when others were quicker; 100. */
  readonly tries?: number | undefined;
}

export interface Written<D> {
  readonly document: D;
  readonly generation: Int64;
}

type Decoded<R extends { payload: string }, D> = Omit<R, 'payload'> & { readonly document: D };
export type CatalogResource<D> = Decoded<ReplyOf<'readResource'>, D>;
export type CatalogEntry<D> = Decoded<ReplyOf<'listResources'>['entries'][number], D>;
export type HistoryEntry<D> = Decoded<ReplyOf<'resourceHistory'>['entries'][number], D | null>;

const decoded = <R extends { payload: string }, D>({ payload, ...rest }: R): Decoded<R, D> => ({
  ...rest,
  document: decodePayload(payload) as D,
});

/** The catalog, with documents as JSON. */
export class CatalogClient {
  readonly #caller: Caller;
  #role: Role | undefined;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  async read<K extends KindName>(
    kind: K,
    name: string,
    settings: CatalogSettings = {},
  ): Promise<CatalogResource<DocumentOf<K>>> {
    return decoded(await this.#caller.ask('readResource', about(kind, name, settings)));
  }

  /**
   * Writes the document, or under a mask parts of it. With `ifGenerationMatch` it may be retried and still is written
   * once. The first write of a token, share link or integration returns its secret, which can't be read again.
   */
  async write<K extends KindName>(
    kind: K,
    name: string,
    document: DocumentOf<K>,
    settings: WriteSettings = {},
  ): Promise<Written<DocumentOf<K>>> {
    const { updateMask = '', ifGenerationMatch, tenant } = settings;
    const mark = ifGenerationMatch === undefined || hasSecret(kind) ? undefined : newMark();
    const justification = await this.#marked(mark, settings);
    const { generation, payload } = await this.#caller.ask('writeResource', {
      params: { 'ref.kind': kind, 'ref.name': name },
      body: {
        ...(tenant && { ref: { tenant } }),
        payload: encodePayload(document),
        updateMask: typeof updateMask === 'string' ? updateMask : updateMask.join(','),
        ...(justification && { justification }),
        ...(ifGenerationMatch !== undefined && { ifGenerationMatch }),
      },
      ...(mark && { isSafe: true, whenRepeated: () => this.#findMarked(kind, name, mark, settings) }),
      ...settingsOf(settings),
    });
    return { document: decodePayload(payload) as DocumentOf<K>, generation };
  }

  /**
   * Reads, changes and writes, with the generation in between: when others were quicker it reads and changes again, so
   * no update is lost. `change` gets undefined where there is no such resource, and is called once per try; it returns
   * the whole document, or null to leave everything as it is.
   */
  async readModifyWrite<K extends KindName, R extends DocumentOf<K> | null>(
    kind: K,
    name: string,
    change: (document: DocumentOf<K> | undefined, generation: Int64) => R | Promise<R>,
    settings: ChangeSettings = {},
  ): Promise<R extends null ? null : Written<DocumentOf<K>>> {
    type Result = R extends null ? null : Written<DocumentOf<K>>;
    const { tries = 100, signal, ...rest } = settings;
    for (let failures = 1; ; failures++) {
      const current = await this.#readIfThere(kind, name, settings);
      const generation = current?.generation ?? '0';
      const next = await change(current?.document, generation);
      if (next === null) return null as Result;
      try {
        return (await this.write(kind, name, next, {
          ...rest,
          signal,
          ifGenerationMatch: generation,
        })) as Result;
      } catch (error) {
        if (!isOutrun(error) || failures >= tries) throw error;
      }
      await pause(delayMs(failures, { firstDelayMs: 20, longestDelayMs: 1_000 }), signal);
    }
  }

  async delete(
    kind: KindName,
    name: string,
    settings: DeleteSettings = {},
  ): Promise<ReplyOf<'deleteResource'>> {
    const { ifGenerationMatch } = settings;
    const mark = ifGenerationMatch === undefined ? undefined : newMark();
    const justification = await this.#marked(mark, settings);
    return this.#caller.ask('deleteResource', {
      ...about(kind, name, settings, {
        ...(ifGenerationMatch !== undefined && { ifGenerationMatch: String(ifGenerationMatch) }),
        ...(justification && { justification }),
      }),
      ...(mark && {
        isSafe: true,
        whenRepeated: async () => {
          const own = await this.#findMarked(kind, name, mark, settings);
          return own && { generation: own.generation };
        },
      }),
    });
  }

  /** One page of the resources of a kind, by name, builtins included. */
  async list<K extends KindName>(
    kind: K,
    settings: PageSettings = {},
  ): Promise<Page<CatalogEntry<DocumentOf<K>>>> {
    const question = about(kind, '', settings, pageQuery(settings));
    const { entries, nextPageToken } = await this.#caller.ask('listResources', question);
    return { entries: entries.map((entry) => decoded(entry)), nextPageToken };
  }

  listAll<K extends KindName>(
    kind: K,
    settings: PageSettings = {},
  ): AsyncGenerator<CatalogEntry<DocumentOf<K>>, void, void> {
    const { signal } = settings;
    return pages(settings.pageToken, (pageToken) => this.list(kind, { ...settings, signal, pageToken }));
  }

  /** One page of who wrote it, when and why, newest first. The document of a delete is null. */
  async history<K extends KindName>(
    kind: K,
    name: string,
    settings: PageSettings = {},
  ): Promise<Page<HistoryEntry<DocumentOf<K>>>> {
    const question = about(kind, name, settings, pageQuery(settings));
    const { entries, nextPageToken } = await this.#caller.ask('resourceHistory', question);
    return { entries: entries.map((entry) => decoded(entry)), nextPageToken };
  }

  historyAll<K extends KindName>(
    kind: K,
    name: string,
    settings: PageSettings = {},
  ): AsyncGenerator<HistoryEntry<DocumentOf<K>>, void, void> {
    const { signal } = settings;
    return pages(settings.pageToken, (pageToken) =>
      this.history(kind, name, { ...settings, signal, pageToken }),
    );
  }

  async #readIfThere<K extends KindName>(kind: K, name: string, settings: CatalogSettings) {
    try {
      return await this.read(kind, name, settings);
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  /**
   * A conditional write is refused when it is repeated after its reply was lost, just as if another had been quicker:
   * the same document, even by the same key, proves nothing. So each carries a mark in its justification, by which the
   * history tells whose it was. An operator must give a reason; a mark alone would pass for one.
   */
  async #marked(mark: string | undefined, settings: DeleteSettings): Promise<string | undefined> {
    const { justification = '' } = settings;
    if (mark === undefined) return justification;
    if (justification.trim() === '' && (await this.#isOperators(settings))) return justification;
    return `${justification} ${mark}`.trim();
  }

  async #isOperators(settings: CallSettings): Promise<boolean> {
    this.#role ??= (await this.#caller.ask('whoami', settingsOf(settings))).role;
    return this.#role === 'operator';
  }

  async #findMarked(kind: KindName, name: string, mark: string, settings: CatalogSettings) {
    const { signal, tenant } = settings;
    for await (const entry of this.historyAll(kind, name, { signal, tenant, pageSize: 100 })) {
      if (entry.justification.endsWith(mark)) {
        return { generation: entry.generation, payload: encodePayload(entry.document) };
      }
    }
    return undefined;
  }
}

const newMark = (): string => `[write ${mintId()}]`;

/** The reason that somebody gave for a write, without the mark by which this client finds its own again. */
export const reasonOf = ({ justification }: { readonly justification: string }): string =>
  justification.replace(/\s*\[write [0-9a-f]+\]$/, '');

/** The reply that holds a secret can't be had again: such a write is not repeated. */
const hasSecret = (kind: string): boolean =>
  /^(token|sharelink|integration)s?$/.test(kind.toLowerCase().replace(/[-_]/g, ''));

const isOutrun = (error: unknown): boolean =>
  error instanceof FailedPreconditionError && error.violations.some(({ type }) => type === 'GENERATION');

const pageQuery = ({ pageSize, pageToken }: PageSettings): Record<string, string> => ({
  ...(pageSize !== undefined && { pageSize: String(pageSize) }),
  ...(pageToken && { pageToken }),
});

const about = (
  kind: string,
  name: string,
  settings: CatalogSettings,
  query: Readonly<Record<string, string>> = {},
) => ({
  params: { 'ref.kind': kind, 'ref.name': name },
  query: {
    ...(settings.tenant?.provider && { 'ref.tenant.provider': settings.tenant.provider }),
    ...(settings.tenant?.org && { 'ref.tenant.org': settings.tenant.org }),
    ...query,
  },
  ...settingsOf(settings),
});
