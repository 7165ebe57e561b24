import { startSharedPostgres } from './database.ts';
import { keepSharedServers } from './shared-server.ts';
import { installSystemPackages } from './system-packages.ts';

export async function setup() {
  installSystemPackages();
  const endServers = keepSharedServers();
  const stopPostgres = await startSharedPostgres();
  return async () => {
    endServers();
    await stopPostgres();
  };
}
