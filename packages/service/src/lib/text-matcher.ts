export type Place = readonly [from: number, to: number];

/** Adds a place that ends behind those before it; places that overlap are joined. */
export function addPlace(places: Place[], [from, to]: Place): void {
  let start = from;
  for (let last = places.at(-1); last && last[1] > start; last = places.at(-1)) {
    start = Math.min(start, last[0]);
    places.pop();
  }
  places.push([start, to]);
}

export interface Matches {
  /** Where the texts occur. */
  readonly places: readonly Place[];
  /** How many characters at the end are the beginning of one of the texts. */
  readonly begun: number;
  /** Where a search in the text that follows goes on. */
  readonly node: number;
}

/**
 * Finds any of several texts in time that is linear in the length of what is searched (Aho and Corasick, 1975). A node is
 * a beginning of one of the texts. Nodes are numbers, and what is known of them is in typed arrays: the texts may have
 * hundreds of thousands of characters. Most nodes have one child, which is the next number.
 */
export class TextMatcher {
  readonly #parent: Int32Array;
  /** The last character of the node. */
  readonly #character: Uint16Array;
  readonly #depth: Int32Array;
  /** The node of the longest ending of this node that is one. */
  readonly #fallback: Int32Array;
  /** The length of the longest text that ends here; 0 if none does. */
  readonly #longest: Int32Array;
  /** Whether a node has children that are not the next number. */
  readonly #hasBranches: Uint8Array;
  /** Those children, as a hash table by node and character. */
  readonly #branches: Int32Array;
  /** Whether a text may begin with two characters, by `pairOf`: most that are searched do not. */
  readonly #pairs = new Uint8Array(2 ** 16);
  #nodes = 1;

  /** Each text has at least two characters. */
  constructor(texts: readonly string[]) {
    const size = texts.reduce((sum, text) => sum + text.length, 1);
    this.#parent = new Int32Array(size);
    this.#character = new Uint16Array(size);
    this.#depth = new Int32Array(size);
    this.#fallback = new Int32Array(size);
    this.#longest = new Int32Array(size);
    this.#hasBranches = new Uint8Array(size);
    // Each text branches off once at most.
    this.#branches = new Int32Array(2 ** Math.ceil(Math.log2((texts.length + 1) * 2)));
    for (const text of texts) this.#add(text);
    this.#findFallbacks();
  }

  /** Behind a text whose search ended at `node`; a place may begin there, before 0. */
  search(text: string, node = 0): Matches {
    const places: Place[] = [];
    let at = node;
    for (let index = 0; index < text.length; index++) {
      if (at === 0 && index + 1 < text.length && this.#pairs[pairOf(text, index)] === 0) continue;
      at = this.#next(at, text.charCodeAt(index));
      const length = this.#longest[at] as number;
      if (length > 0) addPlace(places, [index + 1 - length, index + 1]);
    }
    return { places, begun: this.#depth[at] as number, node: at };
  }

  #add(text: string): void {
    this.#pairs[pairOf(text, 0)] = 1;
    let node = 0;
    for (let at = 0; at < text.length; at++) {
      const character = text.charCodeAt(at);
      node = this.#child(node, character) || this.#addChild(node, character);
    }
    this.#longest[node] = text.length;
  }

  #addChild(node: number, character: number): number {
    const child = this.#nodes;
    if (child !== node + 1) {
      this.#branches[this.#slot(node, character)] = child;
      this.#hasBranches[node] = 1;
    }
    this.#nodes += 1;
    this.#parent[child] = node;
    this.#character[child] = character;
    this.#depth[child] = (this.#depth[node] as number) + 1;
    return child;
  }

  /** 0 if there is none. */
  #child(node: number, character: number): number {
    const next = node + 1;
    if (next < this.#nodes && this.#parent[next] === node && this.#character[next] === character) return next;
    return this.#hasBranches[node] ? (this.#branches[this.#slot(node, character)] as number) : 0;
  }

  #findFallbacks(): void {
    for (const node of this.#byDepth()) {
      const depth = this.#depth[node] as number;
      if (depth > 1) {
        const fallback = this.#fallback[this.#parent[node] as number] as number;
        this.#fallback[node] = this.#next(fallback, this.#character[node] as number);
      }
      this.#longest[node] ||= this.#longest[this.#fallback[node] as number] as number;
    }
  }

  /** The fallback of a node needs those of shorter nodes. */
  #byDepth(): Int32Array {
    const depths = this.#depth.subarray(0, this.#nodes);
    const starts = new Int32Array(depths.reduce((most, depth) => Math.max(most, depth), 0) + 2);
    for (const depth of depths) (starts[depth + 1] as number) += 1;
    for (let depth = 1; depth < starts.length; depth++)
      (starts[depth] as number) += starts[depth - 1] as number;
    const sorted = new Int32Array(this.#nodes);
    for (let node = 0; node < this.#nodes; node++) {
      const depth = depths[node] as number;
      sorted[starts[depth] as number] = node;
      (starts[depth] as number) += 1;
    }
    return sorted;
  }

  #next(from: number, character: number): number {
    for (let node = from; ; node = this.#fallback[node] as number) {
      const child = this.#child(node, character);
      if (child !== 0 || node === 0) return child;
    }
  }

  /** Where a branch is in the table, or where it would be. */
  #slot(node: number, character: number): number {
    const mask = this.#branches.length - 1;
    const hash = Math.imul(node ^ Math.imul(character, 0x85ebca6b), 0x9e3779b1);
    let slot = (hash ^ (hash >>> 15)) & mask;
    for (;;) {
      const child = this.#branches[slot] as number;
      if (child === 0 || (this.#parent[child] === node && this.#character[child] === character)) return slot;
      slot = (slot + 1) & mask;
    }
  }
}

/** The characters at this place and the next; other pairs may have the same number. */
const pairOf = (text: string, at: number): number =>
  ((text.charCodeAt(at) << 8) ^ text.charCodeAt(at + 1)) & 0xffff;
