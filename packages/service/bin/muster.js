#!/usr/bin/env node
import '../dist/bundle/muster.js';
