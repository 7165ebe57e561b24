import type { Role, Tenant } from '../contract/identity.ts';
import type { Kind, KnownFields } from '../contract/kinds.ts';
import type { DocumentWarning } from '../contract/resource.ts';
import type { ReplyOf } from '../contract/routes.ts';
import { type Caller, type CallSettings, type Page, readPages } from './caller.ts';
import { FailedPreconditionError, NotFoundError } from './errors.ts';
import { delayMs, pause } from './retries.ts';
import { decodePayload, encodePayload, type Int64, type Int64Input, mintId } from './values.ts';

/** The document of a kind. Unknown fields are kept as they are. */
export type DocumentOf<K extends string> = (K extends Kind ? KnownFields<K> : unknown) & {
  [field: string]: unknown;
};

/** Any spelling of a kind that the service accepts. */
export type KindName = Kind | (string & {});

export interface CatalogSettings extends CallSettings {
  /** For operators: another tenant than the caller's. */
  readonly tenant?: Partial<Tenant> | undefined;
}

export interface PageSettings extends CatalogSettings {
  readonly pageSize?: number | undefined;
  readonly pageToken?: string | undefined;
}

export interface DeleteSettings extends CatalogSettings {
  /** Refuses the request unless this is the current generation. */
  readonly ifGenerationMatch?: Int64Input | undefined;
  /** For the audit record; required for operators. */
  readonly justification?: string | undefined;
}

export interface WriteSettings extends DeleteSettings {
  /** The fields to change; without it the document replaces the whole resource. */
  readonly updateMask?: string | readonly string[] | undefined;
  /** The document as its author wrote it, with comments: YAML, or Markdown for a persona. It must say the same. */
  readonly text?: string | undefined;
}

export interface ChangeSettings extends Omit<WriteSettings, 'ifGenerationMatch' | 'text' | 'updateMask'> {
  /** How often to try when others write at the same time; 100. */
  readonly tries?: number | undefined;
}

export interface Written<D> {
  readonly document: D;
  /** The document as its author wrote it, as far as it is stored; otherwise empty. */
  readonly text: string;
  readonly generation: Int64;
  /** What is accepted but probably a mistake, such as a misspelt field. */
  readonly warnings: readonly DocumentWarning[];
}

type Decoded<R extends { payload: string }, D> = Omit<R, 'payload'> & { readonly document: D };
export type CatalogResource<D> = Decoded<ReplyOf<'readResource'>, D>;
export type CatalogEntry<D> = Decoded<ReplyOf<'listResources'>['entries'][number], D>;
export type HistoryEntry<D> = Decoded<ReplyOf<'resourceHistory'>['entries'][number], D | null>;

const decode = <R extends { payload: string }, D>({ payload, ...rest }: R): Decoded<R, D> => ({
  ...rest,
  document: decodePayload(payload) as D,
});

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
    return decode(
      await this.#caller.call('readResource', undefined, settings, address(kind, name, settings)),
    );
  }

  /**
   * Writes the document, or with a mask parts of it. With `ifGenerationMatch` it is retried and still written once. The
   * first write of a token, share link, integration, notification or trigger may return a secret, which can't be read again.
   */
  async write<K extends KindName>(
    kind: K,
    name: string,
    document: DocumentOf<K>,
    settings: WriteSettings = {},
  ): Promise<Written<DocumentOf<K>>> {
    const { ifGenerationMatch } = settings;
    const mark = ifGenerationMatch === undefined || hasSecret(kind) ? undefined : newMark();
    const body = writeBody(document, settings, await this.#withMark(mark, settings));
    const reply = await this.#caller.call('writeResource', body, settings, {
      params: { 'ref.kind': kind, 'ref.name': name },
      ...(mark && { isSafe: true, whenRepeated: () => this.#findMarked(kind, name, mark, settings) }),
    });
    return written(reply);
  }

  /** Checks a write as the service would, and returns what it would lead to. Nothing is written. */
  async validate<K extends KindName>(
    kind: K,
    name: string,
    document: DocumentOf<K>,
    settings: WriteSettings = {},
  ): Promise<Written<DocumentOf<K>>> {
    const body = writeBody(document, settings, settings.justification);
    const at = { params: { 'ref.kind': kind, 'ref.name': name } };
    return written(await this.#caller.call('validateResource', body, settings, at));
  }

  /**
   * Reads, changes and writes a resource if its generation is still the same; otherwise tries again, so that no update is
   * lost. `change` gets undefined if the resource does not exist. It is called once per try and returns the whole
   * document, or null to change nothing.
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
      const current = await this.#readIfExists(kind, name, settings);
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
        if (!isGenerationConflict(error) || failures >= tries) throw error;
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
    const justification = await this.#withMark(mark, settings);
    const query = {
      ...(ifGenerationMatch !== undefined && { ifGenerationMatch: String(ifGenerationMatch) }),
      ...(justification && { justification }),
    };
    return this.#caller.call('deleteResource', {}, settings, {
      ...address(kind, name, settings, query),
      ...(mark && {
        isSafe: true,
        whenRepeated: async () => {
          const own = await this.#findMarked(kind, name, mark, settings);
          return own && { generation: own.generation };
        },
      }),
    });
  }

  /** One page of the resources of a kind, sorted by name, with builtin ones. */
  async list<K extends KindName>(
    kind: K,
    settings: PageSettings = {},
  ): Promise<Page<CatalogEntry<DocumentOf<K>>>> {
    const at = address(kind, '', settings, pageQuery(settings));
    const { entries, nextPageToken } = await this.#caller.call('listResources', undefined, settings, at);
    return { entries: entries.map((entry) => decode(entry)), nextPageToken };
  }

  listAll<K extends KindName>(
    kind: K,
    settings: PageSettings = {},
  ): AsyncGenerator<CatalogEntry<DocumentOf<K>>, void, void> {
    const { signal } = settings;
    return readPages(settings.pageToken, (pageToken) => this.list(kind, { ...settings, signal, pageToken }));
  }

  /** One page of the audit records, newest first. The document of a delete is null. */
  async history<K extends KindName>(
    kind: K,
    name: string,
    settings: PageSettings = {},
  ): Promise<Page<HistoryEntry<DocumentOf<K>>>> {
    const at = address(kind, name, settings, pageQuery(settings));
    const { entries, nextPageToken } = await this.#caller.call('resourceHistory', undefined, settings, at);
    return { entries: entries.map((entry) => decode(entry)), nextPageToken };
  }

  historyAll<K extends KindName>(
    kind: K,
    name: string,
    settings: PageSettings = {},
  ): AsyncGenerator<HistoryEntry<DocumentOf<K>>, void, void> {
    const { signal } = settings;
    return readPages(settings.pageToken, (pageToken) =>
      this.history(kind, name, { ...settings, signal, pageToken }),
    );
  }

  async #readIfExists<K extends KindName>(kind: K, name: string, settings: CatalogSettings) {
    try {
      return await this.read(kind, name, settings);
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  /**
   * Adds a random mark to the justification. When a conditional write is repeated after a lost reply, it is refused like
   * a write that lost against another one. The mark in the history tells whether the first try was written. Operators
   * must give a reason, so a mark alone is not sent for them: it would count as one.
   */
  async #withMark(mark: string | undefined, settings: DeleteSettings): Promise<string | undefined> {
    const { justification = '' } = settings;
    if (mark === undefined) return justification;
    if (justification.trim() === '' && (await this.#isOperator(settings))) return justification;
    return `${justification} ${mark}`.trim();
  }

  async #isOperator(settings: CallSettings): Promise<boolean> {
    this.#role ??= (await this.#caller.call('whoami', undefined, settings)).role;
    return this.#role === 'operator';
  }

  async #findMarked(kind: KindName, name: string, mark: string, settings: CatalogSettings) {
    const { signal, tenant } = settings;
    for await (const entry of this.historyAll(kind, name, { signal, tenant, pageSize: 100 })) {
      if (entry.justification.endsWith(mark)) {
        return {
          generation: entry.generation,
          payload: encodePayload(entry.document),
          text: entry.text,
          warnings: [],
        };
      }
    }
    return undefined;
  }
}

const writeBody = (
  document: unknown,
  { updateMask = '', text, ifGenerationMatch, tenant }: WriteSettings,
  justification: string | undefined,
) => ({
  ref: tenant && { tenant },
  payload: encodePayload(document),
  text: text || undefined,
  updateMask: typeof updateMask === 'string' ? updateMask : updateMask.join(','),
  justification: justification || undefined,
  ifGenerationMatch,
});

/** An older service sends no warnings and no text. */
const written = <D>({
  payload,
  text = '',
  generation,
  warnings = [],
}: Omit<ReplyOf<'writeResource'>, 'text' | 'warnings'> & {
  readonly text?: string;
  readonly warnings?: DocumentWarning[];
}): Written<D> => ({
  document: decodePayload(payload) as D,
  text,
  generation,
  warnings,
});

const newMark = (): string => `[write ${mintId()}]`;

/** The justification without the mark that this client adds. */
export const reasonOf = ({ justification }: { readonly justification: string }): string =>
  justification.replace(/\s*\[write [0-9a-f]+\]$/, '');

/** Kinds whose write returns a secret. A lost secret can't be read again, so such a write is not repeated. */
const hasSecret = (kind: string): boolean =>
  /^(token|sharelink|integration|notification|trigger)s?$/.test(kind.toLowerCase().replace(/[-_]/g, ''));

const isGenerationConflict = (error: unknown): boolean =>
  error instanceof FailedPreconditionError && error.violations.some(({ type }) => type === 'GENERATION');

const pageQuery = ({ pageSize, pageToken }: PageSettings): Record<string, string> => ({
  ...(pageSize !== undefined && { pageSize: String(pageSize) }),
  ...(pageToken && { pageToken }),
});

const address = (
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
});
