import { builtin, type Kind, type WriteRequest } from '@muster/sdk/contract';
import { readResources } from '../../store/statements/resources.ts';
import type { Principal } from '../access/principal.ts';
import type { CatalogOptions } from './catalog-options.ts';
import type { Ref } from './check-write.ts';
import type { Document } from './document.ts';
import { readByRef, type StoredRef } from './read-by-ref.ts';
import { historyOf, listOfKind, readOne } from './read-resources.ts';
import { workspacesListing } from './resource-index.ts';
import { StoredSecrets } from './stored-secrets.ts';
import { WholeKind } from './whole-kind.ts';
import { deleteOne, writeOne } from './write-resources.ts';

interface Current {
  readonly document: Document;
  readonly generation: number;
}

type Rest<F> = F extends (options: CatalogOptions, ...rest: infer R) => unknown ? R : never;

/** Versioned documents by kind and name, each write with its reason on record. */
export class Catalog {
  readonly secrets: StoredSecrets;
  readonly #options: CatalogOptions;
  readonly #documents: (ref: StoredRef) => Promise<Current | undefined>;
  readonly #integrations: WholeKind<Document>;

  constructor(options: CatalogOptions) {
    this.#options = options;
    this.secrets = new StoredSecrets(options);
    this.#documents = readByRef(options.database, readResources, ({ kind, name }, row) => {
      const document = row?.document ?? builtin(kind, name);
      return document && { document, generation: row?.generation ?? 0 };
    });
    this.#integrations = new WholeKind(options.database, 'integration', (tenant, name) =>
      this.document(tenant, 'integration', name),
    );
  }

  read = (...request: Rest<typeof readOne>) => readOne(this.#options, ...request);
  list = (...request: Rest<typeof listOfKind>) => listOfKind(this.#options, ...request);
  history = (...request: Rest<typeof historyOf>) => historyOf(this.#options, ...request);
  write = (...request: Rest<typeof writeOne>) => writeOne(this.#options, ...request);
  validate = (caller: Principal, ref: Ref, request: WriteRequest) =>
    writeOne(this.#options, caller, ref, request, { isTrial: true });
  delete = (...request: Rest<typeof deleteOne>) => deleteOne(this.#options, ...request);

  /** The current document, builtins included; for use by the service itself, like all below. */
  async document(tenant: number, kind: Kind, name: string): Promise<Document | undefined> {
    return (await this.current(tenant, kind, name))?.document;
  }

  /** The same with its generation; 0 for a builtin that was never written. */
  current(tenant: number, kind: Kind, name: string): Promise<Current | undefined> {
    return this.#documents({ tenant, kind, name });
  }

  /** All integrations of a tenant, by name. */
  integrations(tenant: number): Promise<readonly { name: string; value: Document }[]> {
    return this.#integrations.of(tenant);
  }

  /** The workspaces that may list one of these repositories, by name. */
  workspacesListing(tenant: number, repoUrls: readonly string[]) {
    return workspacesListing(this.#options.database, tenant, repoUrls);
  }
}
