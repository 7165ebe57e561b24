// The least a Fastify server can do to store the body of a request: one row per request.
import Fastify from 'fastify';
import pg from 'pg';

const database = new pg.Pool({ max: 8 });
const app = Fastify();
app.post('/', async (request, reply) => {
  await database.query({
    name: 'insert',
    text: 'INSERT INTO bench_rows (body) VALUES ($1)',
    values: [JSON.stringify(request.body)],
  });
  return reply.code(202).send({});
});
const address = await app.listen({ host: '127.0.0.1', port: 0 });
console.log(`ready at ${address}`);
