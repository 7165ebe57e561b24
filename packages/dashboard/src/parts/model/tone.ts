/** The colour of a state. */
export type Tone = 'good' | 'bad' | 'warning' | 'busy' | 'new' | 'special' | 'quiet';
