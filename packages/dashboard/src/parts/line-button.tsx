import type { ComponentProps } from 'react';
import './line-button.css';

export const LineButton = ({ className = '', ...rest }: ComponentProps<'button'>) => (
  <button type="button" className={`line-button ${className}`} {...rest} />
);
