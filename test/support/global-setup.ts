import { startSharedPostgres } from './database.ts';
import { useMemoryFolder } from './memory-folder.ts';
import { keepSharedServers } from './shared-server.ts';
import { installSystemPackages } from './system-packages.ts';

export async function setup() {
  installSystemPackages();
  const removeFolder = useMemoryFolder();
  const endServers = keepSharedServers();
  const stopPostgres = await startSharedPostgres();
  return async () => {
    endServers();
    await stopPostgres();
    removeFolder();
  };
}
