/**
 * That an agent stands below another one whose root it has. Paths below an agent are one stretch of the index over its
 * tree, where `0` is what comes after `/`.
 */
export const hasPathBelow = (agent: string, above: string): string =>
  `${agent}.path COLLATE "C" > ${above} || '/' AND ${agent}.path COLLATE "C" < ${above} || '0'`;

/** An earlier holder of its name may have left some under the same path, so that the id decides. */
export const isBelow = (agent: string, above: string): string => `${above} = ANY (${agent}.ancestors)`;

/** What all agents below `a` cost. OFFSET 0 keeps the planner from indexes that know the tenant alone. */
export const childrenCost = `(
     SELECT sum(d.cost) FROM (
       SELECT d.tenant, d.ancestors, d.cost FROM agents d
       WHERE d.root = a.root AND d.parent IS NOT NULL AND ${hasPathBelow('d', 'a.path')} OFFSET 0
     ) d WHERE d.tenant = a.tenant AND ${isBelow('d', 'a.id')}
   )`;
