//! What the program is asked to do.

use crate::bucket::Bucket;
use crate::failure;
use futures_util::{StreamExt, TryStreamExt, stream};
use highwater_lake::store::StoredFile;
use highwater_lake::store::protocol::{StoreAnswer, StoreFailure, StoreRequest, WantedFile};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Larger files are uploaded in parts, so that a broken connection costs one of them.
const PART: u64 = 8 << 20;
/// Parts under way at a time: what the program holds in memory.
const PARTS_AT_ONCE: usize = 4;
const DOWNLOADS_AT_ONCE: usize = 16;

/// Does what is asked. Files of a listing and progress are sent meanwhile.
pub async fn answer(bucket: &Bucket, request: StoreRequest) -> Result<(), StoreFailure> {
    match request {
        StoreRequest::Put { key, file } => put(bucket, &key, &file).await,
        StoreRequest::Get { files } => get(bucket, files).await,
        StoreRequest::List { prefix } => list(bucket, &prefix).await,
        StoreRequest::Head { key } => {
            let object = bucket.object(&key)?;
            let meta = bucket.store.head(&object).await.map_err(|error| failure::of(&error, bucket, &key))?;
            super::say(&StoreAnswer::Files(vec![stored_file(&key, &meta)]));
            Ok(())
        }
        StoreRequest::Delete { keys } => delete(bucket, &keys).await,
    }
}

async fn put(bucket: &Bucket, key: &str, file: &Path) -> Result<(), StoreFailure> {
    let object = bucket.object(key)?;
    let failed = |error| failure::of(&error, bucket, key);
    let system = |error| system(file, &error);
    let content = File::open(file).map_err(system)?;
    let bytes = content.metadata().map_err(system)?.len();
    if bytes <= PART {
        let mut whole = Vec::new();
        content.take(PART).read_to_end(&mut whole).map_err(system)?;
        let only_new = PutMode::Create.into();
        return bucket.store.put_opts(&object, PutPayload::from(whole), only_new).await.map(|_| ()).map_err(failed);
    }
    // Found only at the end of the upload otherwise.
    match bucket.store.head(&object).await {
        Ok(_) => return Err(StoreFailure::Exists(key.to_owned())),
        Err(object_store::Error::NotFound { .. }) => {}
        Err(error) => return Err(failed(error)),
    }
    let id = bucket.store.create_multipart(&object).await.map_err(failed)?;
    *bucket.upload.borrow_mut() = Some((object.clone(), id.clone()));
    let part = |index: usize| {
        let begin = index as u64 * PART;
        let mut part = vec![0; PART.min(bytes - begin) as usize];
        let read = content.read_exact_at(&mut part, begin);
        let (object, id) = (&object, &id);
        async move {
            read.map_err(system)?;
            let length = part.len() as u64;
            let done = bucket.store.put_part(object, id, index, PutPayload::from(part)).await.map_err(failed)?;
            super::say(&StoreAnswer::Moved(length));
            Ok(done)
        }
    };
    let parts: Result<Vec<PartId>, StoreFailure> =
        stream::iter(0..bytes.div_ceil(PART) as usize).map(part).buffered(PARTS_AT_ONCE).try_collect().await;
    let done = match parts {
        Ok(parts) => bucket.only_new.complete_multipart(&object, &id, parts).await.map(|_| ()).map_err(failed),
        Err(failure) => Err(failure),
    };
    if done.is_err() {
        give_up_upload(bucket).await;
    }
    bucket.upload.borrow_mut().take();
    done
}

/// Tells the store that the upload under way will not be completed; otherwise its parts would be kept, and paid for.
pub async fn give_up_upload(bucket: &Bucket) {
    let upload = bucket.upload.borrow_mut().take();
    if let Some((object, id)) = upload {
        let abort = bucket.store.abort_multipart(&object, &id);
        let _ = tokio::time::timeout(Duration::from_secs(5), abort).await;
    }
}

async fn get(bucket: &Bucket, files: Vec<WantedFile>) -> Result<(), StoreFailure> {
    let progress = &Progress::default();
    let downloads = files.into_iter().map(|wanted| download(bucket, wanted, progress));
    stream::iter(downloads).buffer_unordered(DOWNLOADS_AT_ONCE).try_collect::<()>().await
}

async fn download(bucket: &Bucket, wanted: WantedFile, progress: &Progress) -> Result<(), StoreFailure> {
    let WantedFile { file, to, tail } = wanted;
    let begin = tail.map_or(0, |tail| file.bytes.saturating_sub(tail));
    let object = bucket.object(&file.key)?;
    // Weak or missing ETags cannot be asked for.
    let if_match = Some(file.tag.clone()).filter(|tag| tag.starts_with('"'));
    let range = (begin > 0).then_some(GetRange::Bounded(begin..file.bytes));
    let options = GetOptions { if_match, range, ..GetOptions::default() };
    let mut extension = to.extension().unwrap_or_default().to_owned();
    extension.push(format!("{}.part", std::process::id()));
    let part = PartFile { path: to.with_extension(extension) };
    let system = |error| system(&part.path, &error);
    let changed = || StoreFailure::Away(format!("{}: {}: changed since it was listed", bucket.name, file.key));
    let failed = |error: object_store::Error| match error {
        object_store::Error::Precondition { .. } => changed(),
        error => failure::of(&error, bucket, &file.key),
    };
    let got = bucket.store.get_opts(&object, options).await.map_err(failed)?;
    if got.meta.size != file.bytes {
        return Err(changed());
    }
    let mut content = File::create(&part.path).map_err(system)?;
    content.seek(SeekFrom::Start(begin)).map_err(system)?;
    let mut chunks = got.into_stream();
    let mut bytes = 0;
    while let Some(chunk) = chunks.next().await {
        // Whatever the reason is: the server had begun to send it.
        let chunk = chunk.map_err(|error| {
            let reason = failure::one_line(&error);
            StoreFailure::Away(format!("{}: {}: the content was cut: {reason}", bucket.name, file.key))
        })?;
        bytes += chunk.len() as u64;
        content.write_all(&chunk).map_err(system)?;
        progress.moved(chunk.len() as u64);
    }
    if bytes != file.bytes - begin {
        let text = format!("{}: {}: {bytes} of {} bytes arrived", bucket.name, file.key, file.bytes - begin);
        return Err(StoreFailure::Away(text));
    }
    // Others are downloaded meanwhile.
    let synced = tokio::task::spawn_blocking(move || content.sync_data()).await;
    synced.map_err(std::io::Error::other).and_then(|synced| synced).map_err(system)?;
    fs::rename(&part.path, &to).map_err(system)
}

/// A download that is not complete: removed, unless it was renamed.
struct PartFile {
    path: PathBuf,
}

impl Drop for PartFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

async fn list(bucket: &Bucket, prefix: &str) -> Result<(), StoreFailure> {
    let prefix = bucket.object_prefix(prefix);
    let mut page_token: Option<String> = None;
    loop {
        let options = PaginatedListOptions { page_token: page_token.clone(), ..PaginatedListOptions::default() };
        let page = bucket.store.list_paginated(Some(&prefix), options).await;
        let page = page.map_err(|error| failure::of(&error, bucket, &prefix))?;
        let files = page.result.objects.iter();
        let files = files.filter_map(|meta| Some(stored_file(bucket.key(&meta.location)?, meta))).collect();
        super::say(&StoreAnswer::Files(files));
        match page.page_token {
            None => return Ok(()),
            same if same == page_token => {
                let text = format!("{}: the server repeats a page of its listing for ever", bucket.name);
                return Err(StoreFailure::Refused(text));
            }
            next => page_token = next,
        }
    }
}

async fn delete(bucket: &Bucket, keys: &[String]) -> Result<(), StoreFailure> {
    let objects: Vec<ObjectPath> = keys.iter().map(|key| bucket.object(key)).collect::<Result<_, _>>()?;
    let first = keys.first().map_or("", String::as_str);
    let mut deleted = bucket.store.delete_stream(stream::iter(objects).map(Ok).boxed());
    let progress = Progress::default();
    while let Some(one) = deleted.next().await {
        match one {
            Ok(_) => progress.moved(0),
            Err(error) => match failure::of(&error, bucket, first) {
                StoreFailure::NotFound(_) => {}
                failure => return Err(failure),
            },
        }
    }
    Ok(())
}

fn stored_file(key: &str, meta: &ObjectMeta) -> StoredFile {
    let tag = meta.e_tag.clone().unwrap_or_else(|| format!("{}", meta.last_modified.timestamp_micros()));
    StoredFile { key: key.to_owned(), bytes: meta.size, tag }
}

fn system(path: &Path, error: &std::io::Error) -> StoreFailure {
    StoreFailure::System { path: path.display().to_string(), text: error.to_string() }
}

/// Says that a request goes on, at most once a second.
struct Progress {
    said: Cell<Instant>,
    bytes: Cell<u64>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { said: Cell::new(Instant::now()), bytes: Cell::new(0) }
    }
}

impl Progress {
    fn moved(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
        if self.said.get().elapsed() >= Duration::from_secs(1) {
            self.said.set(Instant::now());
            super::say(&StoreAnswer::Moved(self.bytes.take()));
        }
    }
}
