// The least a Fastify server can do with the same request and the same reply.
import { readFileSync } from 'node:fs';
import Fastify from 'fastify';

const reply = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const app = Fastify();
app.post('/v1/agent/status', async () => reply);
const address = await app.listen({ host: '127.0.0.1', port: 0 });
console.log(`ready at ${address}`);
