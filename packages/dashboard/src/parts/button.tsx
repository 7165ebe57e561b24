import type { ComponentProps } from 'react';
import './button.css';

type Look = 'plain' | 'primary' | 'danger' | 'quiet';

/** `quiet` has no frame until it is pointed at; `danger` is for what can't be taken back. */
export function Button({
  look = 'plain',
  type = 'button',
  className = '',
  ...rest
}: ComponentProps<'button'> & { readonly look?: Look }) {
  return <button type={type} className={`button button-${look} ${className}`} {...rest} />;
}
