import type { RouteContext } from '../context.ts';
import { EdgeError } from '../errors.ts';
import { bearerOf, serve } from '../route.ts';

/** A browser gets the key of somebody who has one, by a code that is good once. */
export function signInRoutes(context: RouteContext): void {
  const { keys, signInCodes } = context.control;

  serve(context, 'signInCode', async ({ request }) => signInCodes.make(bearerOf(request)));

  serve(context, 'signIn', async ({ body }) => {
    const key = signInCodes.take(body.code);
    if (key === null)
      throw new EdgeError('UNAUTHENTICATED', 'this code was used or has expired: muster open makes another');
    if (!(await keys.authenticate(key)))
      throw new EdgeError(
        'UNAUTHENTICATED',
        'the key behind this code no longer works: sign in with another',
      );
    return { key };
  });
}
