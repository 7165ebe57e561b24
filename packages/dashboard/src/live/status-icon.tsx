import type { ReactNode } from 'react';
import type { Attention } from './model/attention.ts';
import './live.css';

/** Shapes differ too, for people who can't tell the colours apart. */
const shapes: Readonly<Record<Attention, ReactNode>> = {
  question: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentcolor" />
      <path className="status-icon-inside" d="M5.9 6.2a2.1 2.1 0 1 1 3 1.9c-.6.3-.9.7-.9 1.4M8 11.6v.1" />
    </>
  ),
  blocked: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentcolor" />
      <path className="status-icon-inside" d="M4.8 8h6.4" />
    </>
  ),
  failed: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentcolor" />
      <path className="status-icon-inside" d="m5.6 5.6 4.8 4.8m0-4.8-4.8 4.8" />
    </>
  ),
  'failed-seen': (
    <>
      <circle cx="8" cy="8" r="6.1" />
      <path d="m5.9 5.9 4.2 4.2m0-4.2-4.2 4.2" />
    </>
  ),
  unfinished: (
    <>
      <circle cx="8" cy="8" r="6.1" />
      <path d="M8 4.6v4.1M8 11.2v.1" />
    </>
  ),
  finished: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentcolor" />
      <path className="status-icon-inside" d="m4.9 8.3 2.2 2.2 4-4.6" />
    </>
  ),
  waiting: (
    <>
      <circle cx="8" cy="8" r="6.1" />
      <path d="M6.3 5.8v4.4M9.7 5.8v4.4" />
    </>
  ),
  working: (
    <>
      <circle cx="8" cy="8" r="6.1" opacity="0.3" />
      <path className="status-icon-turn" d="M8 1.9a6.1 6.1 0 0 1 6.1 6.1" />
    </>
  ),
  idle: <circle cx="8" cy="8" r="6.1" strokeDasharray="2 2.8" />,
};

/** Hidden from screen readers, because the status text is always beside it. */
export const StatusIcon = ({ attention }: { readonly attention: Attention }) => (
  <svg className="status-icon" data-attention={attention} viewBox="0 0 16 16" aria-hidden="true">
    {shapes[attention]}
  </svg>
);

export const PinIcon = () => (
  <svg className="pin-icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d="m9.6 1.6 4.8 4.8-1 1-.9-.2-2.9 2.9.2 2.3-1.1 1.1-2.9-2.9-3.3 3.3-.7.1.1-.7 3.3-3.3-2.9-2.9L3.3 6l2.3.2 2.9-2.9-.2-.9z" />
  </svg>
);
