import type { Caller } from '@muster/sdk';
import { isAdmin } from '../live/model/allowed-actions.ts';

export interface MainPage {
  readonly title: string;
  readonly href: string;
  readonly pattern: RegExp;
  /** The shortcut that leads to it. */
  readonly key: string;
  readonly isForAdmins?: true;
}

/** The pages of the main navigation. */
const mainPages: readonly MainPage[] = [
  { title: 'Agents', href: '/', pattern: /^\/($|agents\/)/, key: 'g' },
  { title: 'Inbox', href: '/inbox', pattern: /^\/inbox$/, key: 'i' },
  { title: 'Catalog', href: '/catalog', pattern: /^\/catalog/, key: 'c' },
  { title: 'Schedules', href: '/schedules', pattern: /^\/schedules/, key: 't' },
  { title: 'Spend', href: '/spend', pattern: /^\/spend$/, key: 'u' },
  { title: 'Runners', href: '/runners', pattern: /^\/runners$/, key: 'r' },
  { title: 'Team', href: '/team', pattern: /^\/team$/, key: 'e', isForAdmins: true },
  { title: 'Activity', href: '/activity', pattern: /^\/activity$/, key: 'a', isForAdmins: true },
];

export const pagesFor = (caller: Caller): readonly MainPage[] =>
  mainPages.filter(({ isForAdmins }) => !isForAdmins || isAdmin(caller));
