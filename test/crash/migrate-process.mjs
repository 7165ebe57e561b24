// Brings the schema up to date in a process of its own, to be killed half-way.
import { migrate } from '../../packages/service/dist/store/migrate.js';

const applied = await migrate({ connectionString: process.env.DATABASE_URL });
process.stdout.write(`${JSON.stringify(applied)}\n`);
