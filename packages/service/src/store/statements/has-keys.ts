import { statement } from '../connection.ts';

/** Whether anybody could sign in. */
export const hasKeys = statement<[], { any: boolean }>('has-keys', 'SELECT EXISTS (SELECT FROM keys) AS any');
