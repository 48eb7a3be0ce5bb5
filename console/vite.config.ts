import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Names without digests: nothing is cached (Cache-Control: no-store), and what changed is seen in a diff.
export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2024",
    chunkSizeWarningLimit: 1200, // internal/web holds it to what is sent
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/console.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/console[extname]",
      },
    },
  },
});
