import { statement } from '../connection.ts';

export const ping = statement<[], { one: number }>('ping', 'SELECT 1 AS one');
