import { statement } from '../connection.ts';

/** Children that settled during the live run of their parent and that it has not looked at. */
export const readNews = statement<[tenant: number, parent: string], { path: string }>(
  'read-news',
  `SELECT k.path FROM agents a
   CROSS JOIN LATERAL json_array_elements_text(a.memory -> 'news') AS news (id)
   CROSS JOIN LATERAL (
     SELECT * FROM agents k WHERE k.tenant = a.tenant AND k.id = news.id::uuid OFFSET 0
   ) k
   WHERE a.tenant = $1 AND a.id = $2`,
);
