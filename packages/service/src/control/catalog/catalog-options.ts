import type { OwnModels } from '@muster/sdk/contract';
import type pg from 'pg';
import type { ServiceSecrets } from '../../lib/service-secret.ts';
import type { Keys } from '../access/keys.ts';
import type { Tenants } from '../access/tenants.ts';
import type { PageTokens } from '../agents/page-tokens.ts';
import type { Quotas } from '../upkeep/quotas.ts';

export interface CatalogOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
  readonly keys: Keys;
  readonly secrets: ServiceSecrets;
  readonly pageTokens: PageTokens;
  readonly publicUrl: () => string;
  readonly quotas: Quotas;
  readonly ownModels: OwnModels;
}
