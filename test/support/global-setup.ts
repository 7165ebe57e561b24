import { startSharedPostgres } from './database.ts';

export const setup = startSharedPostgres;
