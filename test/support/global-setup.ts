import { startSharedPostgres } from './database.ts';
import { installSystemPackages } from './system-packages.ts';

export function setup() {
  installSystemPackages();
  return startSharedPostgres();
}
